/* One pass over the queue. Each waiting job in order gets the smallest gang it can run with, or a
 * reservation. What is left makes gangs larger. core performs the result; `why` and `plan` only
 * look. Pure.
 *
 *     pass_init -> { pass_next -> pass_try -> preempt_try }* -> { pass_explain -> pass_next }*
 *               -> pass_extend for those placed -> pass_fini
 *
 * The cluster does not change during the pass. What victims release is collected in `evictions`.
 */
#ifndef SCHEDULER_PASS_H
#define SCHEDULER_PASS_H

#include "coordinator/scheduler/parts.h"
#include "coordinator/scheduler/queue.h"
#include "coordinator/scheduler/scheduler.h"

enum {
    PASS_REFUSALS_MAX = 128,       /* distinct requests remembered as refused */
    PASS_RESERVATIONS_MAX = 16,    /* jobs in front that later jobs may not delay */
    PASS_DEPTH_MAX = 1000,         /* jobs examined after the first that must wait */
    PASS_TRIES_MAX = 4,            /* jobs in front for which preemption found nothing */
    PASS_NOMINATED_MAX = 16,       /* jobs in front for which victims are evicted */
    PASS_FRONT_REASONS_MAX = 1000, /* jobs in front that get a new reason */
    PASS_EXPLAINED_MAX = 64,       /* distinct requests explained to jobs that only get a reason */
};

struct refusal { /* the view only shrinks within a pass: a refused request stays refused */
    const struct spec *spec;
    int64_t release_at_ms;
    bool reopened; /* its job was nominated, so an equal request is examined again */
    struct reason reason;
};

struct eviction { /* what a victim loses for a waiting job (preempt.h) */
    struct job *job;
    const struct node *node; /* the node that it loses; NULL = the gang ends */
    const struct job *to;    /* the waiting job */
    bool reclaimed;          /* for the guarantee of the other tenant, not for a higher priority */
    bool returns;            /* the gang ends and restarts with fewer nodes */
    bool moves;              /* it gets another node instead (defrag.h) */
};

struct pass {
    struct view view;
    struct queue queue;
    struct parts parts; /* set once something is reserved */
    struct refusal *refusals;
    int refusals_count, refusals_capacity, reservations;
    const struct job *reserved[PASS_RESERVATIONS_MAX]; /* in queue order; nothing is evicted
                                                        * for them */
    int reserved_count;
    int explained;     /* to jobs that only get a reason */
    int refused;       /* jobs after the first that must wait */
    int examined_full; /* of these, examined when no node is left */
    int tries;         /* failed searches for victims */
    /* jobs that start when leaving workers have ended */
    const struct job *nominated[PASS_NOMINATED_MAX];
    int nominated_count;
    struct eviction *evictions; /* of this pass; those of one gang for one job are adjacent */
    int evictions_count, evictions_capacity;
    bool moved; /* one of them is a move: nothing more is preempted */
    /* Begin another pass over the same state, for a dry run; NULL = over the cluster itself. */
    void (*init_dry_run)(void *arg, struct pass *ret);
    void *init_dry_run_arg;
};

struct verdict {
    bool placed;
    struct placement placement; /* if placed: placement_fini */
    bool limited;               /* by its tenant's limit */
    bool fresh;                 /* the reason was found for this job, not for an equal one */
    struct reason reason;       /* if not placed */
    int64_t starts_at_ms;       /* if not placed: the expected start; 0 = unknown */
};

void pass_init(struct pass *pass, const struct cluster *cluster, int64_t now_ms);
void pass_fini(struct pass *pass);
struct job *pass_next(struct pass *pass);
/* Call once per job. When nothing is left, only jobs in front continue, because victims may be
 * evicted for them. */
bool pass_goes_on(struct pass *pass);
/* True if none of its workers lives and its backoff is over. A job that is not ready keeps what it
 * got from the view, so that no later job gets it, but does not start. */
bool pass_is_ready(const struct pass *pass, const struct job *job);
/* Place the job's smallest gang, or return the reason and make a reservation. */
void pass_try(struct pass *pass, const struct job *job, struct verdict *ret);
/* Call once per job after pass_goes_on returned false: true if the job gets a new reason. */
bool pass_explains_more(struct pass *pass);
/* The reason why it waits, without searching a place. False: too many distinct requests were
 * explained. */
bool pass_explain(struct pass *pass, const struct job *job, struct reason *ret);
/* pass_nominate: the job can start once all victims have left. */
void pass_add_eviction(struct pass *pass, const struct eviction *eviction);
void pass_nominate(struct pass *pass, const struct job *job);
/* Add nodes to a gang that was just placed, up to its maximum. */
void pass_extend(struct pass *pass, const struct job *job, struct placement *placement);
/* Nodes to keep as spares of a running gang, between one and `nodes`. False: there are none. */
bool pass_spare(struct pass *pass, const struct job *job, int nodes, const char *together,
                struct placement *ret);
/* More nodes for a running gang, at least `least`. False: there are none. `together` as in struct
 * request. */
bool pass_grow(struct pass *pass, const struct job *job, int least, const char *together,
               struct placement *ret);

#endif
