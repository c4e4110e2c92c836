/* Kernels of CUDA on the CPU: what tests and the fake runtime call. The .cu files are compiled as
 * C++ over tests/cuda/emulated.h; a launch becomes a closure that runs here.
 *
 *     GPU_LAUNCH ──► hook, if there is one: keeps the closure, runs it when it wants
 *                └─► otherwise it runs at once, to its end
 *
 * Blocks, warps and lanes run one after another in an order that the seed chooses; what a correct
 * kernel computes does not depend on it. A lane that waits keeps its stack, the others go on.
 * Shared memory begins as NaN, each array of it is memory of its own, so that sanitizers see its
 * ends. A mistake is a sentence on stderr, then abort():
 *
 *     a barrier that some lane does not come to; a mask that names a lane that does not come, or
 *     reads one that is not in it; a launch above the limits of sm_90; shared memory written past
 *     its end (without ASan); copies into shared memory that are not waited for when a lane ends
 *
 * Not modelled: the order of memory between barriers, speed, banks, occupancy.
 * Threads: seed and hook are of the calling thread, launches of different threads independent.
 */
#ifndef EMULATED_EMULATED_H
#define EMULATED_EMULATED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A launch that waits to run. `run` may be called any number of times; `free` always, at last. */
struct emulated_launch {
    const char *kernel; /* as the launch is written in the source */
    void *closure;
    void (*run)(struct emulated_launch *launch);
    void (*free)(struct emulated_launch *launch);
};

/* Gets each launch of this thread with its stream; owns it from then on. NULL: run at once. */
typedef void emulated_hook_fn(void *arg, void *stream, struct emulated_launch launch);
void emulated_set_hook(emulated_hook_fn *hook, void *arg);

/* The order of all launches from now on. */
void emulated_set_seed(uint64_t seed);

/* Launches since the thread began, of which tests take differences. */
uint64_t emulated_launches(void);

#ifdef __cplusplus
}
#endif

#endif
