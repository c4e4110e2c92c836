#include <stdio.h>
#include <worker/worker.h>

int main(void)
{
    struct wk_context *wk = NULL;
    if (wk_open(NULL, &wk) != 0)
        return 1;
    printf("%s: rank %d of %d\n", wk_version_text(), wk_rank(wk), wk_world(wk));
    return wk_close(wk);
}
