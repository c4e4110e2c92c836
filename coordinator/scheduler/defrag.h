/* Room for a gang that waits though enough slots are free in sum: parts of elastic gangs move to
 * other nodes. A move costs the gang that makes it a re-forming, no step: the rest of it goes on in
 * place, and newcomers elsewhere take over. So it is only asked of gangs of two nodes and more that
 * have no node to spare (others shrink, preempt.h), never for a job of a lower priority, and never
 * twice within DEFRAG_REST_MS. Pure.
 */
#ifndef SCHEDULER_DEFRAG_H
#define SCHEDULER_DEFRAG_H

#include "coordinator/scheduler/preempt.h"

enum {
    DEFRAG_MOVES_MAX = 4,   /* that one job is worth */
    DEFRAG_NODES_MAX = 128, /* looked at for one job */
    DEFRAG_REST_MS = 600000,
};

/* True: the moves are at the end of pass->given, in the order in which they are to be made; false:
 * moving would not help, or not be worth it. */
bool defrag_plan(struct pass *pass, const struct job *job);

/* Loop time from which a part of the gang may move again; 0 = none has moved. */
int64_t defrag_rest_ends(const struct job *job);

#endif
