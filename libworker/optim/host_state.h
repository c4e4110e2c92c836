/* An optimizer's state in pinned memory of the host, because the device's is too small for it. An
 * update has it on the device piece by piece, in slots in turn, while the pieces before and after
 * are on their way:
 *
 *     pinned ──in──► slot ──event──► update ──event──► slot ──out──► pinned
 *              └ after the copy that emptied the slot
 *
 * The copies run beside the updates, as far as the bus is fast enough: AdamW moves 16 bytes an
 * element and step. Bits are those of state on the device. Element-wise optimizers only. Inside
 * optim/; owned by the optimizer, the device's thread.
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
};

struct host_state {
    struct queue *in, *out; /* NULL: state is where the optimizer computes */
    float *slots;           /* [HOST_STATE_SLOTS][n_states][piece], memory of the device */
    size_t piece;
    int n_states, next;
    struct event emptied[HOST_STATE_SLOTS]; /* of `out` */
    bool moves;                             /* copies of a step are not waited for yet */
};

/* For a range of `count` elements that is updated on `queue`. WK_ENOMEM. */
int host_state_init(struct host_state *host, struct queue *queue, size_t count, int n_states,
                    struct error *err);
void host_state_fini(struct host_state *host); /* zeroed is fine; waits for copies */

/* Zeros of the host. NULL without memory. */
float *host_state_new(const struct queue *queue, size_t count);

/* Enqueue the way of a piece to the device, which `queue` then waits for: ret_there[n_states]. And
 * back, after what is on `queue` then. Pieces have host->piece elements at most. */
void host_state_bring(struct host_state *host, struct queue *queue, float *const *from,
                      size_t count, float **ret_there);
void host_state_return(struct host_state *host, struct queue *queue, float *const *to,
                       size_t count);

/* Wait for the copies of the last step. After it the host may read and write the state. The
 * device's failure. */
int host_state_settle(struct host_state *host, struct error *err);

#endif
