/* Meetings of the ranks on one host. Each rank posts its data into its own segment and reads the
 * others' posts. An operation uses one post of each rank. If ranks touched each other's buffers it
 * also uses one `done` of each.
 *
 * A post may be overwritten two operations later. By then its owner has seen the next post of every
 * rank, which each writes after reading this one. Two places are therefore enough.
 *
 * Sleeping: a rank sets `asleep`, has the kernel execute a barrier in every other process
 * (membarrier, 2 us), looks once more and sleeps. Posting therefore needs no fence, only a read of
 * `asleep`. Where membarrier is unavailable, posting fences.
 *
 * Only the thread that runs an operation calls these.
 */
#ifndef COMM_BOARD_H
#define COMM_BOARD_H

#include "libworker/comm/comm_internal.h"

/* Offsets of a rank's buffers in its arenas. They follow the header of a post without data. */
struct located {
    uint32_t in_arena, out_arena; /* 0: not in an arena */
    uint64_t in_offset, out_offset;
};

/* Call once in a process with communicators. False: posting must use fences. */
bool board_prepare(void);

/* Post data[bytes] with comm->header as this rank's next post. The first line is written last and
 * all at once. A rank that reads it earlier takes the cache line away, and getting it back costs as
 * much as the whole meeting. */
void board_post(struct wk_comm *comm, const void *data, size_t bytes);

/* Wait until every rank of this host has posted; headers must agree with comm->header. 0 or the
 * failure. */
int board_gather(struct wk_comm *comm);
const struct post *board_post_of(const struct wk_comm *comm, int rank);

/* True if `rank` of this host waits for us in a meeting that we have not reached. It continues only
 * after we have posted. */
bool board_awaits_us(const struct wk_comm *comm, int rank, struct header *ret_header);

/* Declare that this rank no longer uses others' buffers, and wait until all ranks have done so. */
int board_finish(struct wk_comm *comm, const struct share *share);

/* After a failure: wait a moment until the living ranks of this host no longer use our arenas.
 * False if one may still write to them. */
bool board_quiesce(struct wk_comm *comm);

#endif
