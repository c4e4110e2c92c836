#include "coordinator/rendezvous/ranks.h"

#include <string.h>

#include "common/base/assert.h"

void ranks_assign(const struct rank_request *requests, int world, uint64_t *ret_members)
{
    memset(ret_members, 0, sizeof(*ret_members) * (size_t)world);
    for (int i = 0; i < world; i++) {
        int rank = requests[i].rank;
        insist(requests[i].uid != 0);
        if (rank < 0 || rank >= world)
            continue;
        never(ret_members[rank]);
        ret_members[rank] = requests[i].uid;
    }
    int hole = 0;
    for (int i = 0; i < world; i++) {
        if (requests[i].rank >= 0 && requests[i].rank < world)
            continue;
        while (ret_members[hole])
            hole++;
        ret_members[hole] = requests[i].uid;
    }
}
