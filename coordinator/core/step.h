/* The coordinator's heart: one event in, the cluster changed, actions out. Pure: no clock, no I/O,
 * no randomness but the cluster's own seeded stream; the same events give the same actions. Loop
 * thread.
 *
 *   event -> node.c / job.c / checkpoint.c   take down what the event says
 *         -> job_settle                      each touched job: what follows from what is so
 *         -> place                           waiting jobs and growth meet free nodes
 *         -> invariant.c                     (debug, simulation) the whole cluster is sound
 *
 * Events of one moment share a pass over the queue: each but the last says that it may come later.
 *
 * Everything is level triggered: a step looks at what is, never at what must have happened before,
 * so repeated, late and lost reports do no harm.
 */
#ifndef CORE_STEP_H
#define CORE_STEP_H

#include <stdint.h>

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"

enum {
    BEAT_MS = 1000,               /* agents report at least this often */
    LEASE_MS = 3000,              /* silence that ends the belief in a node */
    RESTORED_LEASE_MS = 10000,    /* the first one after a restart: agents must find us again */
    ABSENCE_MS = 500,             /* so late, we ourselves stood still: silence says nothing */
    PUNCTUAL_MS = 50,             /* a verdict later than this first hears who waits to be heard */
    LAST_WORD_MS = 250,           /* for so long */
    EVIDENCE_MS = LEASE_MS,       /* steps of its gang speak for a silent node so long */
    FRONT_TOLD_MS = 1000,         /* all in front of the queue say what they wait for so often */
    STOP_GRACE_MS = 10000,        /* between SIGTERM and SIGKILL */
    STOP_SLACK_MS = 30000,        /* a worker that outlives grace and this is named in the reason */
    JOIN_TIMEOUT_MS = 30000,      /* members whose peers gave them up must join within this */
    SURVIVOR_TIMEOUT_MS = 600000, /* others that live: they may evaluate, load or save for long */
    START_TIMEOUT_MS = 60000,     /* members that are started afresh */
    UNAWARE_AFTER_MS = 2000,      /* started and said nothing: a program that does not know us */
    BROKEN_PATIENCE_MS = 3000,    /* peers lost each other, yet nobody died: form again */
    FINISH_PATIENCE_MS = 60000,   /* some finished, the rest make no progress */
    STALL_MIN_MS = 10000,         /* a wait that is shorter is no event: somebody may save */
    CRASH_LOOP_LIMIT = 3,         /* same cause without a new step, or each time: */
    CRASH_SOON_MS = 10000,        /* so soon after its start, of a program that tells no steps */
    REFUND_AFTER_MS = 600000,     /* run time that refunds the budget of such a program */
    GROW_BACKOFF_MS = 10000,      /* doubled with each failure to grow, up to GROW_BACKOFF_MAX_MS */
    GROW_BACKOFF_MAX_MS = 600000,
    RESIZE_SETTLE_MS = 30000, /* a gang that has to start again to grow has run so long before;
                               * doubled with each growth, up to GROW_BACKOFF_MAX_MS */
    RESIZE_ROOM_MS = 10000,   /* and there was room for so long */
};

/* Appends to ret. Every event with a request gets exactly one ACTION_ANSWER. */
void coordinator_step(struct cluster *cluster, const struct event *event, struct actions *ret);

/* Workers that have not ended, of all jobs. */
int core_living(const struct cluster *cluster);

/* When EVENT_TICK must come at the latest; INT64_MAX = nothing is timed. Also told as the last
 * ACTION_WAKE_AT of a step. */
int64_t core_wake_at(const struct cluster *cluster);

/* Whether ranks of a running job have waited for others for longer than a second, or no step comes
 * (ledger_hangs_at_ms), or all but some members of its next group are there; then who waits for
 * whom and in what. Pure. */
bool core_stalled(const struct job *job, struct reason *ret);

/* Every blocker of a waiting job, who stalls a running one, or the job's reason; returns how many
 * were written. Pure. */
int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max);

#endif
