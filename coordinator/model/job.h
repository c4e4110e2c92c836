/* A job: its state, its gang, its budget and what it reported. Part of the cluster (cluster.h).
 *
 *     job ── current group (the generation that trains) ── members by rank
 *         └─ forming group (the next generation, while it gathers) ── members by rank
 *         └─ workers by uid: every process not yet forgotten; a worker of both groups is a survivor
 */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/heap.h"
#include "coordinator/model/checkpoint.h"
#include "coordinator/model/group.h"
#include "coordinator/model/ledger.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/spec.h"
#include "coordinator/model/state.h"
#include "coordinator/model/worker.h"

struct map_entry;
struct tenant;

enum { JOB_USER_MAX = 63, SECRET_BYTES = 32 };

struct job {
    char id[JOB_ID_MAX + 1];
    uint64_t sequence; /* order of submission */
    struct spec *spec;
    int64_t spec_bytes; /* of its JSON, as counted for its tenant; derived */
    enum job_state state;
    struct reason reason; /* why it is in this state */
    uint64_t version;     /* rises with every change */
    uint64_t next_generation, next_uid;
    struct group current, forming;
    struct worker *workers; /* by uid, ascending */
    int workers_count, workers_capacity;
    struct checkpoint *checkpoints; /* committed ones, by generation and step, ascending */
    int checkpoints_count;
    uint8_t secret[SECRET_BYTES]; /* worker tokens and handshake secrets are derived from it */
    /* restart budget */
    int restarts; /* in total */
    int restarts_without_progress;
    int nodes_min, nodes_max;         /* from EVENT_JOB_SCALE; 0 = as in its spec */
    char beneficiary[JOB_ID_MAX + 1]; /* for leaving workers and preemption: the job that gets the
                                    * nodes; "" = none */
    uint64_t progress_step;           /* best step when the last failure was seen */
    int same_cause;                   /* consecutive failures with the same cause and no new step */
    char last_cause[256];
    uint64_t charged_generation; /* newest one when the last failure was charged: a worker of these
                                  * generations that dies later belongs to the same failure */
    char preempted_by[JOB_ID_MAX + 1]; /* while queued: the job that got its nodes; "" = none */
    int64_t preempted_wall_ms;         /* since when; 0 = it was not running before */
    int64_t cause_wall_ms;             /* when the failure in `reason` happened; 0 = none */
    bool may_be_excused;               /* stopping because its program failed; that may be the
                                        * consequence of */
    bool excused;                      /* a rank killed from outside, and this is known */
    int64_t backoff_until_ms;
    int64_t grow_after_ms; /* growth failed: not again before */
    int grow_failures;     /* in a row */
    /* progress, as reported */
    uint64_t step, total_steps;
    double loss, tokens_per_second; /* NAN = not reported yet */
    int64_t stalled_wall_ms;        /* running, and stalled since; 0 = not stalled */
    /* the recovery being measured */
    int64_t broken_at_ms; /* 0 = nothing to recover from */
    uint64_t broken_at_step;
    uint64_t recoveries;
    int64_t last_recovery_ms;
    int64_t stop_deadline_ms; /* 0 = none */
    int64_t stacks_wall_ms;   /* derived: when its stacks were requested last; 0 = never */
    int64_t kill_due_ms; /* derived: agents send SIGKILL to stopping workers from then on; 0 = at
                          * any time */
    /* max_runtime counts while the job has nodes, from the first time it runs */
    int64_t runtime_deadline_ms;    /* 0 = not counting */
    int64_t runtime_used_ms;        /* counted until it last waited for nodes */
    int64_t runtime_counts_wall_ms; /* counting since; 0 = not counting */
    int64_t signal_wall_ms;         /* the spec's early signal was sent; 0 = not yet */
    bool cancel_requested;
    enum job_state ending; /* while stopping: the state that follows */
    int exit_code;
    int64_t submitted_wall_ms, started_wall_ms, ended_wall_ms;
    int64_t running_wall_ms; /* the whole gang runs since; 0 = it is being started */
    char idempotency_key[128];
    char user[JOB_USER_MAX + 1]; /* the submitter; "" = unknown */
    struct ledger ledger;
    double use;          /* its share of its tenant's use (tenant.h), as of use_wall_ms */
    int64_t use_wall_ms; /* 0 = not counted yet */
    /* derived, not stored */
    int slots_used;
    struct tenant *tenant;
    int64_t progress_at_ms;    /* when its step rose or a worker finished */
    int64_t stepped_at_ms;     /* when its step rose */
    int64_t went_on_at_ms;     /* when its last stall ended; 0 = it had none */
    int64_t starts_at_ms;      /* while it waits: its expected start; 0 = unknown */
    int64_t starts_wall_ms;    /* the same as wall time */
    int64_t moved_at_ms;       /* when a part of it moved to make room */
    int64_t moves_since_ms;    /* it leaves drained nodes since (move.h); 0 = it does not */
    int64_t move_again_ms;     /* a new worker failed then: not again before */
    int64_t start_took_ms;     /* a worker's start, up to its first request to join; 0 = unknown */
    int64_t capacity_since_ms; /* it could restart with more nodes since; 0 = it could not */
    bool grow_now;             /* growth was requested: do not wait until it has settled */
    bool waiting;              /* listed by cluster_first_waiting: it may be placed */
    struct map_entry *begun, *flexible; /* its entries in those maps; NULL = not in the map */
    struct heap_node timer;
    struct job *older_in_folder; /* the next older job with the same checkpoint folder */
};

void job_free(struct job *job); /* releases the spec; NULL is allowed */

struct worker *job_worker(const struct job *job, uint64_t uid); /* or NULL */

const struct checkpoint *job_last_checkpoint(const struct job *job); /* to resume from, or NULL */
/* True if checkpoints[at] is not kept: beyond spec->checkpoint_keep, or later than where training
 * continued. */
bool job_checkpoint_spare(const struct job *job, int at);

#endif
