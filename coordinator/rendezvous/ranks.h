/* Sticky ranks: a survivor keeps its rank if the new world has it. The others fill the free ranks
 * from the lowest up, in the given order (nodes in order, then place on the node). When whole nodes
 * join and leave, the ranks of one node stay adjacent. Pure. */
#ifndef RENDEZVOUS_RANKS_H
#define RENDEZVOUS_RANKS_H

#include <stdint.h>

struct rank_request {
    uint64_t uid;
    int rank; /* the one it has, -1 = none yet */
};

/* ret_members[0..world-1] gets the uid of each rank. No two requests have the same rank. */
void ranks_assign(const struct rank_request *requests, int world, uint64_t *ret_members);

#endif
