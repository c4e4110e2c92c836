/* Makes room for a waiting gang when enough slots are free but scattered: parts of elastic gangs
 * move to other nodes. A move costs its gang a re-forming, but no step. The rest of the gang
 * continues in place, and new workers elsewhere replace the moved ones. Pure.
 *
 * Only gangs of two or more nodes without a spare node are moved; others shrink (preempt.h). A gang
 * never moves for a job of a lower priority, and never twice within DEFRAG_REST_MS.
 */
#ifndef SCHEDULER_DEFRAG_H
#define SCHEDULER_DEFRAG_H

#include "coordinator/scheduler/pass.h"

enum {
    DEFRAG_MOVES_MAX = 4,   /* at most, for one job */
    DEFRAG_NODES_MAX = 128, /* examined for one job */
    DEFRAG_REST_MS = 600000,
};

/* True: the moves are at the end of pass->evictions, in the order of execution. False: moving would
 * not help, or costs too much. */
bool defrag_plan(struct pass *pass, const struct job *job);

/* Loop time after which a part of the gang may move again; 0 = none has moved. */
int64_t defrag_rest_ends(const struct job *job);

#endif
