/* Master parameters of mixed precision in pinned memory of the host, because the device's is too
 * small for them. What the model reads is on the device: the narrow copy, and vectors in float.
 *
 *     pinned ──piece──► device ──► narrow copy, vectors    masters_renew: loaded, carried over
 *        ▲                 │
 *        └─────────────────┘ an update (optim/host_state.h)
 *
 * Bits are those of masters on the device. Owned by the table of a strategy; its thread calls.
 */
#ifndef PARALLEL_MASTERS_H
#define PARALLEL_MASTERS_H

#include <stddef.h>

#include "common/base/error.h"

struct queue;

enum { MASTERS_PIECE = 1 << 20 }; /* elements that renewing has on the device at a time */

struct masters {
    struct queue *queue; /* of the device; borrowed. NULL: masters are in its memory */
    float *data;         /* [count], pinned */
    size_t count;
    float *piece; /* [MASTERS_PIECE] of the device, or less */
};

/* Elements of `piece`. */
size_t masters_piece(size_t count);

/* Zeros. WK_ENOMEM; the sentence names the memory. */
int masters_init(struct masters *masters, struct queue *queue, size_t count, struct error *err);
void masters_fini(struct masters *masters); /* zeroed memory is allowed; work is waited for */

/* Let `passed` enqueue on the queue what it makes of elements [first, first + count), which are on
 * the device at `there`; piece by piece, all of them. Waits. The device's failure. */
int masters_renew(const struct masters *masters,
                  void (*passed)(void *arg, const float *there, size_t first, size_t count),
                  void *arg);

/* What [first, first + count) and [offset, offset + n) have in common. */
struct masters_overlap {
    size_t from, count; /* 0: nothing */
};
struct masters_overlap masters_overlap(size_t first, size_t count, size_t offset, size_t n);

#endif
