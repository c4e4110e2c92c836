/* Meetings of the ranks on one host. Each rank posts its data into its own segment and reads the
 * others' posts. An operation uses one post of each rank. If ranks touched each other's buffers it
 * also uses one `done` of each.
 *
 * A post may be overwritten two operations later. Its owner has then seen the next post of every
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

#include <stdbool.h>
#include <stddef.h>

#include "libworker/comm/request.h"
#include "libworker/comm/segment.h"

struct wk_comm;

/* Post data[bytes] with comm->header as this rank's next post. The first line is written last and
 * all at once. A rank that reads it earlier moves the cache line away, and getting it back costs as
 * much as the whole meeting. */
void board_post(struct wk_comm *comm, const void *data, size_t bytes);

/* Wait until every rank of this host has posted; headers must agree with comm->header. 0 or the
 * failure. */
int board_gather(struct wk_comm *comm);
const struct post *board_post_of(const struct wk_comm *comm, int rank);

/* Declare that this rank no longer uses others' buffers, and wait until all ranks have done so. */
int board_finish(struct wk_comm *comm, const struct share *share);

/* After a failure: wait a moment until the living ranks of this host no longer use our arenas.
 * False if one may still write to them. */
bool board_quiesce(struct wk_comm *comm);

#endif
