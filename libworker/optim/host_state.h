/* What an update works on in pinned memory of the host, because the device's is too small for it:
 * the optimizer's state, the master parameters, or both. An update has it on the device piece by
 * piece, in slots in turn, while the pieces before and after are on their way:
 *
 *     pinned ──in──► slot ──event──► update ──event──► slot ──out──► pinned
 *              └ after the copy that emptied the slot
 *
 * The copies run beside the updates, as far as the bus is fast enough: AdamW's state moves 16 bytes
 * an element and step, and the master 8. Bits are those of memory on the device. Element-wise
 * optimizers only. Inside optim/; owned by the optimizer, the device's thread.
 */
#ifndef OPTIM_HOST_STATE_H
#define OPTIM_HOST_STATE_H

#include <stdbool.h>

#include "libworker/device/device.h"
#include "libworker/optim/optimizer_ops.h"

enum {
    HOST_STATE_SLOTS = 3,           /* one fetched, one updated, one brought back */
    HOST_STATE_PIECE_MAX = 1 << 22, /* elements */
    HOST_STATE_PIECE_MIN = 1 << 10,
    HOST_STATE_ARRAYS_MAX = OPTIMIZER_STATES_MAX + 1,
};

/* What is there. In the lists of arrays below the master is the first one. */
struct host_state_parts {
    bool master;
    int n_states; /* 0: they are where the optimizer computes */
};

struct host_state {
    struct queue *in, *out; /* NULL: all is where the optimizer computes */
    struct host_state_parts parts;
    float *slots; /* [HOST_STATE_SLOTS][arrays][piece], memory of the device */
    size_t piece;
    int next;
    struct event emptied[HOST_STATE_SLOTS];
    bool moves; /* copies of a step are not waited for yet */
};

static inline int host_state_arrays(const struct host_state *host)
{
    return host->parts.n_states + host->parts.master;
}

/* Elements of a piece of a range. Memory of the slots on the device. */
size_t host_state_piece(size_t count);
size_t host_state_slots(size_t count, struct host_state_parts parts);

/* For a range of `count` elements that is updated on `queue`. WK_ENOMEM. */
int host_state_init(struct host_state *host, struct queue *queue, size_t count,
                    struct host_state_parts parts, struct error *err);
void host_state_fini(struct host_state *host); /* zeroed is fine; waits for copies */

/* Zeros of the host. NULL without memory. */
float *host_state_new(const struct queue *queue, size_t count);

/* Elements of some of the arrays, which are those of the list's first places. */
struct host_state_piece {
    float *home[HOST_STATE_ARRAYS_MAX], *there[HOST_STATE_ARRAYS_MAX];
    int n;
    size_t count; /* host->piece at most */
};

/* Enqueue the piece's way to the device, which `queue` then waits for, and set piece->there. Then
 * either the way back, after all that is on `queue`; or leave it, as nothing has changed. */
void host_state_bring(struct host_state *host, struct queue *queue, struct host_state_piece *piece);
void host_state_return(struct host_state *host, struct queue *queue,
                       const struct host_state_piece *piece);
void host_state_leave(struct host_state *host, struct queue *queue);

/* Wait for the copies of the last step. After it the host may read and write what is its. The
 * device's failure. */
int host_state_settle(struct host_state *host, struct error *err);

#endif
