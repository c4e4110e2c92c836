/* A link through two rings in shared memory. This rank writes the one in the peer's segment and
 * reads the one in its own. The writer copies in; the reader reduces directly from the ring, which
 * is small enough to stay in cache. */
#ifndef COMM_LINK_SHM_H
#define COMM_LINK_SHM_H

#include "libworker/comm/link.h"
#include "libworker/comm/segment.h"

struct link_shm_options {
    int rank;
    int peer;
    int world;
    const struct segment *own;      /* outlives the link */
    struct segment_handles handles; /* the peer's; kept by the caller, bell_fd outlives the link */
};

/* The head of the peer's segment, valid as long as the link. */
struct segment_head *link_shm_head(const struct link *link);

int link_shm_new(const struct link_shm_options *options, struct link **ret, struct error *err);

#endif
