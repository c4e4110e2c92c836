/* A program as users write one: the installed headers and one library. */
#include <stdlib.h>

#include <worker/worker.h>

int main(void)
{
    struct wk_context *ctx;
    static const char *const theirs[] = {"RANK", "WORLD_SIZE", "MUSTER_WORKER_SOCKET"};
    for (int i = 0; i < 3; i++)
        unsetenv(theirs[i]);
    if (wk_open(NULL, &ctx))
        return 1;
    double value = 2;
    if (wk_world(ctx) != 1 || wk_reduce_value(ctx, &value, WK_SUM) || wk_close(ctx) != 0)
        return 1;
    return value < 1.9 || value > 2.1;
}
