/* The emulator as kernels see it: the inline functions of tests/cuda/emulated.h are over these.
 * All of them are called from within a kernel, on the stack of its lane. C and C++.
 */
#ifndef EMULATED_LANE_H
#define EMULATED_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_WARP = 32, EMULATED_WORDS = 4 };

struct emulated_index {
    unsigned x, y, z;
};

/* What a launch asks for. */
struct emulated_grid {
    const char *kernel;
    struct emulated_index grid, block;
    size_t shared_bytes;
    void (*body)(void *closure); /* one lane */
    void *closure;
};

struct emulated_block;
struct emulated_meeting;

/* What kernels read of the lane that runs. */
struct emulated_lane {
    struct emulated_index thread, block_index;
    const struct emulated_grid *grid;
    struct emulated_block *block;
    int number; /* in its block */
};
/* Programs and the fake driver link the emulator in: no call finds its address. */
extern __thread struct emulated_lane *emulated_now __attribute__((tls_model("initial-exec")));

/* Where a lane waits. */
struct emulated_place {
    const char *what, *file;
    int line;
};

/* What a lane brings to a meeting of its warp. */
struct emulated_words {
    uint64_t word[EMULATED_WORDS];
};

/* Wait until all lanes of the mask have come, each with its words. What they brought can be asked
 * for until this lane leaves. */
struct emulated_meeting *emulated_meet(const struct emulated_place *place, unsigned mask,
                                       const struct emulated_words *words);
void emulated_brought(const struct emulated_meeting *meeting, int lane,
                      struct emulated_words *ret_words);
void emulated_leave(struct emulated_meeting *meeting);

/* Wait for all lanes of the block. Returns how many of them brought true. */
int emulated_barrier(const struct emulated_place *place, bool vote);

/* Shared memory of the block: the array of this tag, NaN when the first lane asks for it; and what
 * the launch asked for. */
void *emulated_shared(const void *tag, size_t bytes, const char *name);
void *emulated_shared_dynamic(void);

/* A copy that is done at the latest when its group has been waited for: `bytes` of it copied, the
 * rest of `room` zeroed. */
struct emulated_copy {
    void *to;
    const void *from;
    unsigned bytes, room;
};
void emulated_copy_add(const struct emulated_copy *copy);
void emulated_copy_commit(void);
void emulated_copy_wait(int groups); /* until at most so many are under way */

/* The kernel is wrong: a sentence with kernel, block and lane; never returns. */
void emulated_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Hand a launch to the hook, or run it. */
struct emulated_launch;
void emulated_launch_add(void *stream, struct emulated_launch *launch);
/* Run a grid to its end. */
void emulated_run(const struct emulated_grid *grid);

#ifdef __cplusplus
}
#endif

#endif
