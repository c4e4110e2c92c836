/* A gate in the GPT example, for tests that disturb a training: after step GATE_STEP it waits until
 * the file GATE_FILE exists, so no test looks too late at a training that has ended.
 *
 * Training does not stand still at the gate, for a world changes between steps. Each step waits for
 * a tenth of the time since the gate was reached, thus 24 steps take ten times as long as the 24
 * before. 100 steps take 20 minutes, which is above the hang limit of every test.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <worker/worker.h>

enum { POLL_MS = 5, LEAST_WAIT_MS = 10 };

bool __real_wk_next(struct wk_loader *loader, struct wk_batch *ret_batch);
bool __wrap_wk_next(struct wk_loader *loader, struct wk_batch *ret_batch);
int __real_wk_open(const struct wk_options *options, struct wk_context **ret_ctx);
int __wrap_wk_open(const struct wk_options *options, struct wk_context **ret_ctx);

static struct wk_context *context;

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void gate_wait(const char *file)
{
    static int64_t reached_ms;
    int64_t start_ms = now_ms();
    if (!reached_ms)
        reached_ms = start_ms;
    int64_t wait_ms = (start_ms - reached_ms) / 10 + LEAST_WAIT_MS;
    while (now_ms() - start_ms < wait_ms && access(file, F_OK) != 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

int __wrap_wk_open(const struct wk_options *options, struct wk_context **ret_ctx)
{
    int rc = __real_wk_open(options, ret_ctx);
    context = *ret_ctx;
    return rc;
}

bool __wrap_wk_next(struct wk_loader *loader, struct wk_batch *ret_batch)
{
    const char *file = getenv("GATE_FILE"), *step = getenv("GATE_STEP");
    if (file && step && wk_steps(context) >= strtoll(step, NULL, 10))
        gate_wait(file);
    return __real_wk_next(loader, ret_batch);
}
