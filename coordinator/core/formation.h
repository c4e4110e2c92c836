/* Forms the next group of a gang: survivors of the current one, and newcomers. */
#ifndef CORE_FORMATION_H
#define CORE_FORMATION_H

#include "coordinator/core/step_state.h"
#include "coordinator/rendezvous/ranks.h"

struct newcomer { /* a worker to be started */
    const char *node;
    int slot, local_rank;
    int rank; /* the rank it replaces, -1 = any free rank */
};

struct formation {                   /* the next group */
    const struct rank_request *kept; /* survivors */
    int kept_count;
    const struct newcomer *newcomers;
    int newcomers_count;
    bool open; /* survivors are notified at once */
    bool held; /* newcomers wait for the job's backoff */
};

void group_form(struct step *step, struct job *job, const struct formation *formation);

/* Leave only these members in the forming group. It is the same generation: no worker has its
 * membership yet. The others are in no group until the caller forms the next one. */
void group_narrow(struct step *step, struct job *job, const struct rank_request *kept, int count);

#endif
