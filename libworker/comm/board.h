/* How ranks of one host meet: each posts what it brings into its own segment and looks at the posts
 * of the others. An operation takes one post of each rank and, where ranks touched each other's
 * buffers, one `done` of each.
 *
 * A post may be overwritten two operations later: its owner then has seen everybody's next post,
 * which they write after reading this one. So two places are enough.
 *
 * Sleeping: a rank sets `asleep`, has the kernel put a barrier into every other process
 * (membarrier, 2 us), looks once more and sleeps; so posting needs no fence, only a look at
 * `asleep`. Where the kernel cannot, posting fences.
 *
 * For the runner of a communicator.
 */
#ifndef COMM_BOARD_H
#define COMM_BOARD_H

#include "libworker/comm/comm_internal.h"

/* Where a rank's buffers lie in its arenas: what follows the header of a post without data. */
struct located {
    uint32_t in_arena, out_arena; /* 0: in none */
    uint64_t in_offset, out_offset;
};

/* Once, in a process that has a communicator: false when posting has to fence. */
bool board_prepare(void);

/* Post data[bytes] with comm->header as this rank's next. All at once and the first line last: who
 * looks at it meanwhile takes it away, and getting it back costs as much as the whole meeting. */
void board_post(struct wk_comm *comm, const void *data, size_t bytes);

/* Until every rank of this host has posted; headers must agree with comm->header. 0 or the failure.
 */
int board_gather(struct wk_comm *comm);
const struct post *board_post_of(const struct wk_comm *comm, int rank);

/* Whether `rank` of this host waits for us in a meeting that this rank has not come to: it goes on
 * only once we have posted. */
bool board_awaits_us(const struct wk_comm *comm, int rank, struct header *ret_header);

/* This rank is through with the buffers of others; until all are. */
int board_finish(struct wk_comm *comm, const struct share *share);

/* The communicator has failed: wait a moment for the living ranks of this host to let go of our
 * arenas. False when one may still write to them. */
bool board_quiesce(struct wk_comm *comm);

#endif
