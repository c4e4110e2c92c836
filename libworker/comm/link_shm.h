/* A link through two rings in shared memory: the one this rank writes lies in the peer's segment,
 * the one it reads in its own. The writer copies in, the reader reduces straight out of the ring,
 * which is small enough to stay in cache.
 */
#ifndef COMM_LINK_SHM_H
#define COMM_LINK_SHM_H

#include "libworker/comm/link.h"
#include "libworker/comm/segment.h"

struct link_shm_options {
    int rank;
    int peer;
    int world;
    const struct segment *own;      /* outlives the link */
    struct segment_handles handles; /* the peer's; stay the caller's, bell_fd outlives the link */
};

/* The head of the peer's segment, for as long as the link lives. */
struct segment_head *link_shm_head(const struct link *link);

int link_shm_new(const struct link_shm_options *options, struct link **ret, struct error *err);

#endif
