/* What the files of core share: the step in progress and their verbs. No other room includes this.
 */
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
    struct map settle;     /* jobs to look at, by sequence */
    struct map stored;     /* jobs that changed in what a restart must know */
    struct map shown;      /* jobs that changed in what people see */
    struct strmap nodes;   /* nodes to store */
    struct strmap desired; /* nodes whose assignments changed */
    bool place;            /* free resources or waiting jobs changed */
};

/* marks.c: what is to be done at the end of the step, and what is said in it. Calls
 * no other file of core. */
void step_settle(struct step *step, struct job *job); /* and store it */
void step_look(struct step *step, struct job *job);   /* settle without storing */
void step_store(struct step *step, struct job *job);
void step_show(struct step *step, struct job *job);
void step_store_node(struct step *step, struct node *node);
void step_desired(struct step *step, const char *node);
void step_desired_group(struct step *step, const struct job *job, const struct group *group);
/* An entry of the event log about a job (may be NULL) and a node (may be NULL). */
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
/* The same state for another reason is news where a process that cannot be killed is one of the
 * two.
 */
void node_set_state(struct step *step, struct node *node, enum node_state state,
                    const struct reason *reason);
void node_lease_due(struct step *step, struct node *node);
void node_grant_lease(struct step *step, struct node *node, int64_t lease_ms);
void node_lose(struct step *step, struct node *node, const struct reason *reason);
/* Peers say they lost its ranks: with the connection gone that is a verdict. */
bool node_peers_lost_it(const struct node *node);
/* A worker could not be started on it, and not for what the worker is. */
void node_cannot_start(struct step *step, const char *name, const char *why);
bool node_usable(const struct node *node); /* its workers may go on */

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
bool job_gang_ends(const struct job *job); /* all are told to stop: nothing forms any more */
void job_resumed(struct step *step, struct job *job); /* the coordinator itself stood still */
void job_settle(struct step *step, struct job *job);
void job_set_state(struct step *step, struct job *job, enum job_state state,
                   const struct reason *reason);
void job_set_reason(struct step *step, struct job *job, const struct reason *reason);
void job_stop(struct step *step, struct job *job, enum job_state ending,
              const struct reason *reason);

/* runtime.c: what max_runtime counts */
void runtime_count(struct step *step, struct job *job); /* it runs, or is started again */
void runtime_pause(struct step *step, struct job *job); /* it holds nothing any more */
void runtime_restored(struct step *step, struct job *job);
void runtime_settle(struct step *step, struct job *job); /* ends it when its time is over */

/* group.c */
struct newcomer { /* a worker to be started */
    const char *node;
    int slot, local_rank;
    int rank; /* it takes over, -1 = any hole */
};
struct formation { /* the next group: survivors and newcomers */
    const struct rank_request *kept;
    int kept_count;
    const struct newcomer *newcomers;
    int newcomers_count;
    bool open; /* survivors are told at once */
    bool held; /* newcomers wait for the job's backoff */
};
void group_form(struct step *step, struct job *job, const struct formation *formation);
void group_settle(struct step *step, struct job *job);
bool group_has_asked(const struct worker *worker, uint64_t generation); /* to join it */
void group_finished_reason(const struct group *group, struct reason *ret);
int64_t group_wake_at(const struct job *job);
bool group_all_finished(const struct job *job, const struct group *group);

/* patience.c: how long a group may take; INT64_MAX = no end */
int64_t group_join_deadline(const struct job *job, const struct group *group);
/* It has not asked to join, and at now_ms its time for that is over. */
bool group_waits_for(const struct job *job, const struct group *group, const struct worker *worker,
                     int64_t now_ms);
int64_t group_patience_ends(const struct job *job); /* broken though nobody died; some finished */

/* stall.c: see core_stalled. Ranks of a running job wait in a collective; how long the first has.
 */
bool stall_in_collective(const struct job *job, struct reason *ret, int64_t *ret_waited_ms);
/* No rank says that it waits, yet no step comes. */
void stall_of_all(const struct job *job, struct reason *ret);

/* stall_watch.c */
void stall_settle(struct step *step, struct job *job);
void stall_end(struct step *step, struct job *job); /* fine for a job that goes on */

/* restart.c */
struct failure { /* why the gang cannot go on as it is */
    struct reason reason;
    bool charged;     /* costs a restart */
    bool hopeless;    /* it would fail again: no restart is tried */
    bool own;         /* the program's own doing, as far as is known (budget.c) */
    bool excused;     /* another rank was lost or killed from outside */
    bool lost;        /* nobody knows how it ended: with its node, or without a trace */
    bool whole;       /* no survivor may stay: the whole gang starts again */
    bool growth_only; /* only newcomers of a growing gang are affected */
    char cause[64];   /* equal for equal causes */
    int64_t wall_ms;
    int64_t lived_ms; /* from the start of what failed */
    int exit_code;
};
bool restart_find_failure(struct step *step, const struct job *job, struct failure *ret);
void restart_recover(struct step *step, struct job *job, struct failure *failure);
/* The whole gang ends, and starts again where there is room. */
void restart_again(struct step *step, struct job *job, const struct reason *reason);
/* reform.c: survivors go on in place. False if that cannot be; then nothing was changed. */
bool reform(struct step *step, struct job *job, const struct failure *failure);
void restart_abandon_growth(struct step *step, struct job *job, const struct reason *reason);
void restart_earlier_cause(struct step *step, struct job *job, const struct worker *worker);
void restart_settle(struct step *step, struct job *job); /* in JOB_RESTARTING */
bool restart_ready(const struct job *job, int64_t now_ms);

/* budget.c: what a failure costs */
/* Charge it, if it is to be charged. False: the job ends with failure->reason. */
bool budget_charge(struct step *step, struct job *job, struct failure *failure);
/* The cause stays; its kind becomes what follows from it. */
void budget_verdict(struct reason *reason, enum reason_kind kind, const struct job *job);
/* Peers said that they lost a rank, and this is how it ended: true if the job is to end of it after
 * all. A hint is added then. */
bool budget_ends(struct job *job, const struct exit_info *exit, struct reason *reason);
/* Who ends like this was ended: with its node, by a peer, from outside, or it never began. */
bool budget_excuses(const struct exit_info *exit);
/* It ended by our own signal: SIGTERM, or SIGKILL when its grace was over. */
bool budget_is_ours(const struct step *step, const struct job *job, const struct worker *worker);
/* The job's program failed, or its peers lost each other, and now this worker turns out to have
 * been ended. */
void budget_hear(struct step *step, struct job *job, const struct worker *worker);
/* All have ended: whether such a job starts again after all; then that is charged. */
bool budget_forgive(struct step *step, struct job *job);
/* It has told steps, or will: progress is a new one. Of others it is time. */
bool budget_counts_steps(const struct job *job);

/* place.c */
void place_waiting(struct step *step);
/* What a topology has pinned: the value the living workers' nodes share; NULL = anything. */
const char *place_topology_value(const struct cluster *cluster, const struct job *job);

/* preempt.c: jobs that wait get what others must give; what a gang gives to one stands together */
struct concession;
struct pass;
void preempt_perform(struct step *step, const struct concession *given, int count);
void preempt_settle(struct step *step, struct job *job); /* in JOB_PREEMPTING */
void preempt_all(struct step *step);                     /* by EVENT_HALT */

/* spare.c: nodes kept beside a gang that has its full size; used first when it has less */
void spare_end(struct step *step, struct job *job, struct worker *worker, const char *why);
/* What it keeps where it may not, or no longer asks for, is given back. */
void spare_settle(struct step *step, struct job *job);
/* So many nodes it lacks, 0 if it is not to have any now. */
int spare_wanted(const struct job *job);
void spare_add(struct step *step, struct job *job, const struct placement *placement);
/* Newcomers on at most `nodes` nodes it keeps; returns how many nodes. They are kept until
 * spare_use: nothing is placed in between. */
int spare_find(struct step *step, const struct job *job, int nodes, struct newcomer *ret,
               int *ret_count);
void spare_use(struct step *step, struct job *job, const struct newcomer *newcomers, int count);

/* scale.c */
void job_scale(struct step *step);
/* The numbers of nodes that were asked for last, as far as what runs now allows. */
void scale_apply(struct step *step, struct job *job);

/* What runs has more nodes than was asked for: they are given back as soon as that can be. */
void scale_settle(struct step *step, struct job *job);

/* resize.c: another size by starting again */
bool resize_restarts(const struct job *job); /* it runs, and changes its size in no other way */
bool resize_may_grow(const struct job *job);
int resize_least(const struct job *job); /* nodes more, or none */
/* There is room for so many nodes more, 0 = none: it starts again with them when that is due. */
void resize_found_room(struct step *step, struct job *job, int nodes);
int64_t resize_due(const struct job *job);                 /* 0 = no room was seen */
bool resize_is_due(const struct job *job, int64_t now_ms); /* it starts again where there is room */
bool resize_under_way(const struct job *job); /* it ends to start again with more nodes */
/* No job that was refused in this pass could take its nodes from it. */
bool resize_is_safe(const struct step *step, const struct job *job, const struct pass *pass);
void resize_shrink(struct step *step, struct job *job); /* to what was asked for */

/* ledger.c */
/* Charge what has passed since the job was last touched; true if it is in another phase now, which
 * a restart must know. */
bool ledger_follow(struct job *job, int64_t now_ms);
void ledger_restored(struct job *job, int64_t now_ms, int64_t wall_ms);

/* tenant.c */
void tenant_set(struct step *step);

/* checkpoint.c */
void checkpoint_commit(struct step *step);
/* E_FAILED_PRECONDITION while a job that has not ended writes into this one's folder, and where one
 * that has ended left checkpoints, unless this one says what it resumes from. */
int checkpoint_folder_free(const struct cluster *cluster, const struct spec *spec,
                           struct error *err);

#endif
