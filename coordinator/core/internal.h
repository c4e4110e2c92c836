/* The interface between the files of core: the step in progress and its functions. No other room
 * includes this. */
#ifndef CORE_INTERNAL_H
#define CORE_INTERNAL_H

#include "common/base/map.h"
#include "coordinator/core/step.h"
#include "coordinator/model/reason.h"
#include "coordinator/rendezvous/ranks.h"
#include "coordinator/scheduler/scheduler.h"

struct step {
    struct cluster *cluster;
    const struct event *event;
    struct actions *ret;
    int64_t now_ms, wall_ms;
    struct map settle;     /* jobs to settle, by sequence */
    struct map stored;     /* jobs whose durable state changed */
    struct map shown;      /* jobs whose visible state changed */
    struct strmap nodes;   /* nodes to store */
    struct strmap desired; /* nodes whose assignments changed */
    bool place;            /* free resources or waiting jobs changed */
};

/* marks.c: the work for the end of the step, and the step's answers. Calls no other file of core.
 */
void step_settle(struct step *step, struct job *job); /* and store it */
void step_look(struct step *step, struct job *job);   /* settle without storing */
void step_store(struct step *step, struct job *job);
void step_show(struct step *step, struct job *job);
void step_store_node(struct step *step, struct node *node);
void step_desired(struct step *step, const char *node);
void step_desired_group(struct step *step, const struct job *job, const struct group *group);
/* Append to the event log, about a job (may be NULL) and a node (may be NULL). */
struct record *step_record(struct step *step, const char *kind, const struct job *job,
                           const char *node, const struct reason *reason);
void step_answer_job(struct step *step, const struct job *job, bool repeated);
void step_answer_node(struct step *step, const char *node);
void step_refuse(struct step *step, const struct error *err);

/* node.c, lease.c */
void node_register(struct step *step);
void node_report(struct step *step);
void node_gone(struct step *step);
void node_command(struct step *step);
void node_restored(struct step *step, struct node *node);
/* A change of reason without a change of state is recorded if one of the two reasons is a process
 * that cannot be killed, or a node fault. */
void node_set_state(struct step *step, struct node *node, enum node_state state,
                    const struct reason *reason);
void node_lease_due(struct step *step, struct node *node);
void node_grant_lease(struct step *step, struct node *node, int64_t lease_ms);
void node_lose(struct step *step, struct node *node, const struct reason *reason);
/* Peers reported its ranks lost: together with a closed connection the node is lost. */
bool node_peers_lost_it(const struct node *node);
/* A worker could not be started on the node, for a cause in the node, not in the worker. */
void node_cannot_start(struct step *step, const char *name, const char *why);
bool node_usable(const struct node *node); /* its workers may continue */

/* worker.c */
void workers_take(struct step *step, struct node *node, const struct worker_report *reports,
                  int count);
void worker_end(struct step *step, struct job *job, struct worker *worker,
                const struct exit_info *exit);
void worker_stop(struct step *step, struct job *job, struct worker *worker);
bool worker_finished(const struct worker *worker); /* exited with 0, by itself */
bool worker_living(const struct worker *worker);
int job_living(const struct job *job); /* workers that have not ended */

/* job.c */
void job_submit(struct step *step);
void job_cancel(struct step *step);
void job_restored(struct step *step, struct job *job);
bool job_gang_ends(const struct job *job); /* all workers must stop: no group forms any more */
void job_resumed(struct step *step, struct job *job); /* the coordinator itself was paused */
void job_settle(struct step *step, struct job *job);
void job_set_state(struct step *step, struct job *job, enum job_state state,
                   const struct reason *reason);
void job_set_reason(struct step *step, struct job *job, const struct reason *reason);
void job_stop(struct step *step, struct job *job, enum job_state ending,
              const struct reason *reason);

/* runtime.c: the time that max_runtime limits */
void runtime_count(struct step *step, struct job *job); /* it runs, or is started again */
void runtime_pause(struct step *step, struct job *job); /* it has no slots any more */
void runtime_restored(struct step *step, struct job *job);
void runtime_settle(struct step *step, struct job *job); /* ends the job when its time is over */

/* group.c */
struct newcomer { /* a worker to be started */
    const char *node;
    int slot, local_rank;
    int rank; /* the rank it replaces, -1 = any free rank */
};
struct formation { /* the next group: survivors and newcomers */
    const struct rank_request *kept;
    int kept_count;
    const struct newcomer *newcomers;
    int newcomers_count;
    bool open; /* survivors are notified at once */
    bool held; /* newcomers wait for the job's backoff */
};
void group_form(struct step *step, struct job *job, const struct formation *formation);
void group_settle(struct step *step, struct job *job);
bool group_has_asked(const struct worker *worker, uint64_t generation); /* to join it */
void group_finished_reason(const struct group *group, struct reason *ret);
int64_t group_wake_at(const struct job *job);
bool group_all_finished(const struct job *job, const struct group *group);

/* patience.c: time limits of a group; INT64_MAX = none */
int64_t group_join_deadline(const struct job *job, const struct group *group);
/* It has not asked to join, and at now_ms its time for that is over. */
bool group_waits_for(const struct job *job, const struct group *group, const struct worker *worker,
                     int64_t now_ms);
int64_t group_patience_ends(const struct job *job); /* deadline of a broken group in which no worker
                                                     * died, or of one where some finished */

/* stall.c: see core_stalled. True if ranks of a running job wait in a collective; also how long the
 * first one has waited. */
bool stall_in_collective(const struct job *job, struct reason *ret, int64_t *ret_waited_ms);
/* No rank reports a wait, but no step completes. */
void stall_of_all(const struct job *job, struct reason *ret);

/* stall_watch.c */
void stall_settle(struct step *step, struct job *job);
void stall_end(struct step *step, struct job *job); /* allowed for a job that is not stalled */

/* restart.c */
struct failure { /* why the gang cannot continue unchanged */
    struct reason reason;
    bool charged;     /* costs a restart */
    bool hopeless;    /* it would fail again: do not restart */
    bool own;         /* caused by the program itself, as far as is known (budget.c) */
    bool excused;     /* another rank was lost or killed from outside */
    bool lost;        /* its end is unknown: lost with its node, or without a trace */
    bool whole;       /* no survivor may stay: the whole gang starts again */
    bool growth_only; /* only new workers of a growing gang are affected */
    char cause[64];   /* equal text for equal causes */
    int64_t wall_ms;
    int64_t lived_ms; /* time since the failed worker's start */
    int exit_code;
};
bool restart_find_failure(struct step *step, const struct job *job, struct failure *ret);
void restart_recover(struct step *step, struct job *job, struct failure *failure);
/* End the whole gang and start it again when there is room. */
void restart_again(struct step *step, struct job *job, const struct reason *reason);
/* reform.c: survivors continue in place. False if that is impossible; nothing was changed then. */
bool reform(struct step *step, struct job *job, const struct failure *failure);
void restart_abandon_growth(struct step *step, struct job *job, const struct reason *reason);
void restart_earlier_cause(struct step *step, struct job *job, const struct worker *worker);
void restart_settle(struct step *step, struct job *job); /* in JOB_RESTARTING */
bool restart_ready(const struct job *job, int64_t now_ms);

/* budget.c: the cost of a failure */
/* Charge the failure if it is chargeable. False: the job ends with failure->reason. */
bool budget_charge(struct step *step, struct job *job, struct failure *failure);
/* Keep the cause, but replace its kind by the consequence. */
void budget_verdict(struct reason *reason, enum reason_kind kind, const struct job *job);
/* Peers reported this rank lost, and this is how it ended. True if the job must end because of it;
 * a hint is added then. */
bool budget_ends(struct job *job, const struct exit_info *exit, struct reason *reason);
/* Such an end came from elsewhere: from its node, a peer or outside, or the worker never began. */
bool budget_excuses(const struct exit_info *exit);
/* The worker ended by our own signal: SIGTERM, or SIGKILL after its grace time. */
bool budget_is_ours(const struct step *step, const struct job *job, const struct worker *worker);
/* The job's program failed, or its peers lost each other, and now this worker turns out to have
 * been killed. */
void budget_hear(struct step *step, struct job *job, const struct worker *worker);
/* All workers ended: true if the job starts again after all; that restart is then charged. */
bool budget_forgive(struct step *step, struct job *job);
/* The program has reported steps, or will: for it progress is a new step. For others progress is
 * time. */
bool budget_counts_steps(const struct job *job);

/* place.c */
void place_waiting(struct step *step);
/* The topology value that the living workers' nodes share, which pins the job; NULL = any. */
const char *place_topology_value(const struct cluster *cluster, const struct job *job);

/* preempt.c: evicts gangs and frees nodes for waiting jobs. The concessions of one gang for one job
 * are adjacent in `given`. */
struct concession;
struct pass;
void preempt_perform(struct step *step, const struct concession *given, int count);
void preempt_settle(struct step *step, struct job *job); /* in JOB_PREEMPTING */
void preempt_all(struct step *step);                     /* by EVENT_HALT */

/* spare.c: nodes kept beside a gang of full size, which replace nodes that it loses */
void spare_end(struct step *step, struct job *job, struct worker *worker, const char *why);
/* Release spare nodes that the job may not keep any longer or no longer asks for. */
void spare_settle(struct step *step, struct job *job);
/* Number of missing spare nodes; 0 if the job may have none now. */
int spare_wanted(const struct job *job);
void spare_add(struct step *step, struct job *job, const struct placement *placement);
/* New workers on at most `nodes` of its spare nodes; returns the number of nodes. They stay
 * reserved until spare_use: nothing is placed in between. */
int spare_find(struct step *step, const struct job *job, int nodes, struct newcomer *ret,
               int *ret_count);
void spare_use(struct step *step, struct job *job, const struct newcomer *newcomers, int count);

/* scale.c */
void job_scale(struct step *step);
/* Apply the last requested node counts, as far as the running gang allows. */
void scale_apply(struct step *step, struct job *job);

/* Give back the nodes above the requested count as soon as possible. */
void scale_settle(struct step *step, struct job *job);

/* resize.c: a change of size by a restart */
bool resize_restarts(const struct job *job); /* it runs, and changes its size only by a restart */
bool resize_may_grow(const struct job *job);
int resize_least(const struct job *job); /* the least number of additional nodes, or 0 */
/* There is room for this many more nodes, 0 = none. The job restarts with them when that is due. */
void resize_found_room(struct step *step, struct job *job, int nodes);
int64_t resize_due(const struct job *job);                 /* 0 = no room was seen */
bool resize_is_due(const struct job *job, int64_t now_ms); /* it restarts now if there is room */
bool resize_under_way(const struct job *job); /* it is ending in order to restart with more nodes */
/* No job refused in this pass could take its nodes from it. */
bool resize_is_safe(const struct step *step, const struct job *job, const struct pass *pass);
void resize_shrink(struct step *step, struct job *job); /* to the requested size */

/* ledger.c */
/* Charge the time since the job was last touched. True if its phase changed, which must be stored.
 */
bool ledger_follow(struct job *job, int64_t now_ms);
void ledger_restored(struct job *job, int64_t now_ms, int64_t wall_ms);

/* tenant.c */
void tenant_set(struct step *step);

/* checkpoint.c */
void checkpoint_commit(struct step *step);
/* E_FAILED_PRECONDITION if an unfinished job writes into this job's checkpoint folder. Also if a
 * finished job left checkpoints there, unless this job names what it resumes from. */
int checkpoint_folder_free(const struct cluster *cluster, const struct spec *spec,
                           struct error *err);

#endif
