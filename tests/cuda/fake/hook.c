/* Launches of emulated kernels are work of their stream. */
#include "tests/cuda/fake/hook.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "tests/cuda/emulated/emulated.h"
#include "tests/cuda/fake/fake.h"

static void run_kernel(void *arg)
{
    struct emulated_launch *launch = arg;
    launch->run(launch);
}

static void drop_kernel(void *arg)
{
    struct emulated_launch *launch = arg;
    launch->free(launch);
    free(launch);
}

static void enqueue_kernel(void *arg, void *stream, struct emulated_launch launch)
{
    struct emulated_launch *kept = malloc(sizeof(*kept));
    (void)arg;
    insist(kept);
    *kept = launch;
    const struct fake_work work = {launch.kernel, run_kernel, drop_kernel, kept};
    (void)fake_enqueue(stream, &work);
}

void hook_begin(uint64_t seed)
{
    emulated_set_seed(seed);
    emulated_set_hook(enqueue_kernel, NULL);
}

void hook_end(void)
{
    emulated_set_hook(NULL, NULL);
}
