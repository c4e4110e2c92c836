/* One block of a launch while it runs, and what a thread keeps between launches. Private to the
 * emulator. */
#ifndef EMULATED_BLOCK_H
#define EMULATED_BLOCK_H

#include "tests/cuda/emulated/fiber.h"
#include "tests/cuda/emulated/lane.h"

enum {
    LANES_MAX = 1024,
    WARPS_MAX = LANES_MAX / EMULATED_WARP,
    SHARED_ARRAYS_MAX = 32,
    SHARED_STATIC_MAX_BYTES = 48 << 10,
    SHARED_MAX_BYTES = 227 << 10, /* of a block, sm_90 */
    LANE_COPIES_MAX = 256,
    BARRIER_SYNCS = 1 << 12,
};

enum lane_state { LANE_NEW, LANE_RUNS, LANE_BARRIER, LANE_WARP, LANE_READY, LANE_DONE };

/* Copies that a lane has begun, oldest first. */
struct copies {
    struct emulated_copy copy[LANE_COPIES_MAX];
    int group[LANE_COPIES_MAX]; /* that it belongs to; the one that is open has number `groups` */
    int n, groups;
};

struct lane {
    struct emulated_lane view; /* first: kernels have its address */
    enum lane_state state;
    struct emulated_fiber *fiber;
    void *tsan;
    struct emulated_place place; /* that it waits at */
    struct copies *copies;       /* NULL: it has not copied */
};

struct emulated_meeting {
    struct emulated_meeting *next; /* of those that lanes may come to, or of the free ones */
    const char *what;
    unsigned mask, came;
    int readers; /* that have not left */
    struct emulated_words brought[EMULATED_WARP];
};

struct shared_array {
    const void *tag;
    const char *name;
    unsigned char *memory;
    size_t bytes;
    bool filled; /* for this block */
};

/* Memory that is kept to the end of a grid: under ThreadSanitizer its blocks run at once. */
struct spent {
    struct spent *next;
    void *memory;
};

struct emulated_block {
    const struct emulated_grid *grid;
    struct emulated_index index;
    struct lane lanes[LANES_MAX];
    int n_lanes, n_started, n_done;
    int order[LANES_MAX];          /* in which lanes begin */
    struct lane *ready[LANES_MAX]; /* that may go on */
    int n_ready;
    struct emulated_meeting *open[WARPS_MAX];
    struct emulated_meeting *unused;

    int n_waiting; /* at the barrier */
    const struct lane *first_waiting;
    int votes, verdict;
    uint64_t barriers;
    uint64_t barrier_sync[BARRIER_SYNCS], begin_sync, end_sync; /* for ThreadSanitizer */

    struct shared_array shared[SHARED_ARRAYS_MAX]; /* [0]: what the launch asked for */
    int n_shared;
    struct spent *spent;

    struct emulated_fiber *fibers[LANES_MAX]; /* without a lane */
    int n_fibers;
    struct emulated_fiber *starting; /* that the next lane begins on */
    uint64_t random;
};

struct lane *lane_now(void);
uint64_t block_random(struct emulated_block *block, uint64_t below);

/* Let the others run until somebody makes this lane ready. */
void lane_wait(struct lane *lane, enum lane_state state, const struct emulated_place *place);
void lane_ready(struct lane *lane);

/* Shared memory begins anew / its ends are as they were. */
void shared_begin(struct emulated_block *block);
void shared_check(struct emulated_block *block);
void shared_free(struct emulated_block *block);

/* A lane ends: it must not be waited for, and must not have copies under way. */
void meetings_check_end(const struct lane *lane);
void copies_check_end(const struct lane *lane);

#endif
