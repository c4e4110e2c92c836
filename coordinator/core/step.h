/* The coordinator's core: one event in, the cluster changed, actions out. Pure: no clock, no I/O,
 * no randomness except the cluster's own seeded stream. The same events produce the same actions.
 * Loop thread.
 *
 *     event -> node.c / job.c / checkpoint.c   record the event's facts
 *           -> job_settle                      per touched job: apply what follows from its state
 *           -> place                           give free nodes to waiting jobs and to growth
 *           -> invariant.c                     (debug, simulation) check the whole cluster
 *
 * Many events share one pass over the queue: they set pass_later, and EVENT_PASS follows them. The
 * driver makes it at the end of its turn.
 *
 * A step looks only at the present state, never at earlier events. Repeated, late and lost reports
 * therefore do no harm.
 */
#ifndef CORE_STEP_H
#define CORE_STEP_H

#include <stdint.h>

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"

enum {
    BEAT_MS = 1000,               /* agents report at least this often */
    LEASE_MS = 3000,              /* a node silent for this long loses its lease */
    RESTORED_LEASE_MS = 10000,    /* the first lease after a restart: agents must find us again */
    ABSENCE_MS = 500,             /* a tick this late means the coordinator was paused: silence
                                   * proves nothing */
    PUNCTUAL_MS = 50,             /* a lease check later than this first processes the waiting
                                   * reports, */
    LAST_WORD_MS = 250,           /* for at most this long */
    EVIDENCE_MS = LEASE_MS,       /* a new step of its gang proves for this long that a silent
                                   * node is alive */
    FRONT_TOLD_MS = 1000,         /* interval of new reasons for all jobs in front of the queue */
    STOP_GRACE_MS = 10000,        /* between SIGTERM and SIGKILL */
    STOP_SLACK_MS = 30000,        /* a worker that outlives grace and this is named in the reason */
    JOIN_TIMEOUT_MS = 30000,      /* to join, for members whose peers reported them lost */
    SURVIVOR_TIMEOUT_MS = 600000, /* to join, for other living members: they may evaluate, load or
                                   * save */
    START_TIMEOUT_MS = 60000,     /* to join, for members that are newly started */
    UNAWARE_AFTER_MS = 2000,      /* started, but silent: a program that does not use libworker */
    BROKEN_PATIENCE_MS = 3000,    /* peers lost each other, but no worker died: form again */
    FINISH_PATIENCE_MS = 60000,   /* some finished, the others make no progress */
    STALL_MIN_MS = 10000,         /* a shorter wait is not reported: a rank may be saving */
    CRASH_LOOP_LIMIT = 3,         /* failures with the same cause and no new step between; or,
                                   * without steps: */
    CRASH_SOON_MS = 10000,        /* each this soon after the start of a program that reports no
                                   * steps */
    REFUND_AFTER_MS = 600000,     /* run time that refunds the restart budget of such a program */
    GROW_BACKOFF_MS = 10000,      /* doubled with each failed growth, up to GROW_BACKOFF_MAX_MS */
    GROW_BACKOFF_MAX_MS = 600000,
    RESIZE_SETTLE_MS = 30000, /* run time before a gang restarts in order to grow; doubled with each
                               * growth, up to GROW_BACKOFF_MAX_MS */
    RESIZE_ROOM_MS = 10000,   /* and there was room for this long */
};

/* Appends to ret. Each event with a request gets exactly one ACTION_ANSWER. */
void coordinator_step(struct cluster *cluster, const struct event *event, struct actions *ret);

/* Workers that have not ended, of all jobs. */
int core_living(const struct cluster *cluster);

/* The latest time for the next EVENT_TICK; INT64_MAX = no timer is set. It is also the last
 * ACTION_WAKE_AT of a step. */
int64_t core_wake_at(const struct cluster *cluster);

/* True if a running job is stalled; ret then names the waiting ranks and the operation. Stalled
 * means: ranks have waited for others for more than a second, no step completes
 * (ledger_hangs_at_ms), or some members of its next group are missing. Pure. */
bool core_stalled(const struct job *job, struct reason *ret);

/* Why a job is where it is: every blocker of a waiting job, the ranks that stall a running one, or
 * else the job's reason. Returns the number written to ret. Pure. */
int core_why(const struct cluster *cluster, const struct job *job, struct reason *ret, int max);

#endif
