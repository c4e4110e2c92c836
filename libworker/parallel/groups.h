/* Hybrid sharding: a model cut over `shards` ranks, and `replicas` of it. Rank r of the world has
 * part r % shards in replica r / shards, so the ranks of a replica are adjacent:
 *
 *      4 ranks, 2 replicas      part 0   part 1
 *      replica 0                 rank 0   rank 1    gathers and reduce-scatters go along a row,
 *      replica 1                 rank 2   rank 3    the sums of a part then along its column
 *
 * With one replica there are no groups and the whole communicator is used. Owned by the struct
 * around it. Source: Zhao et al. 2023, "PyTorch FSDP", section 3.2.2.
 */
#ifndef PARALLEL_GROUPS_H
#define PARALLEL_GROUPS_H

#include <worker/comm.h>

#include "common/base/error.h"

struct layout {
    int shards, replicas; /* their product is the world */
    int part, replica;    /* of this rank */
};

/* `shards` 0: as many as the replicas leave; `replicas` 0: the reverse; both 0: one replica. Sizes
 * that do not fit the world become one replica cut over all of it. */
struct layout layout_of(int rank, int world, int shards, int replicas);

struct groups {
    struct wk_comm *row, *column; /* NULL with one replica */
};

/* Make the groups of `comm`; those of another communicator are closed first. Collective. */
int groups_make(struct groups *groups, struct wk_comm *comm, const struct layout *layout,
                struct error *err);
void groups_close(struct groups *groups); /* zeroed memory is allowed; before the communicator's */

#endif
