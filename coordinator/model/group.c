#include "coordinator/model/group.h"

#include <stdlib.h>
#include <string.h>

int group_rank_of(const struct group *group, uint64_t uid)
{
    for (int rank = 0; rank < group->world; rank++)
        if (group->members[rank] == uid)
            return rank;
    return -1;
}

int group_rank_of_worker(const struct group *group, const struct worker *worker)
{
    if (worker->rank >= 0 && worker->rank < group->world &&
        group->members[worker->rank] == worker->uid)
        return worker->rank;
    return group_rank_of(group, worker->uid);
}

void group_fini(struct group *group)
{
    free(group->members);
    free(group->places);
    memset(group, 0, sizeof(*group));
}
