/* One pass over the queue: each waiting job in order gets the smallest gang it can run with, or a
 * reservation; what is left then makes gangs larger. core performs what it says; `why` and `plan`
 * only look. Pure.
 *
 *   pass_init -> { pass_next -> pass_try -> preempt_try }* -> { pass_tell -> pass_next }*
 *             -> pass_extend for those placed -> pass_fini
 *
 * Nothing is changed in the cluster before all have had their turn: what is asked of others is
 * gathered in `given`.
 */
#ifndef SCHEDULER_PASS_H
#define SCHEDULER_PASS_H

#include "coordinator/scheduler/parts.h"
#include "coordinator/scheduler/queue.h"
#include "coordinator/scheduler/scheduler.h"

enum {
    PASS_REFUSALS_MAX = 128,    /* different requests that are remembered as refused */
    PASS_RESERVATIONS_MAX = 16, /* jobs in front that nobody may delay */
    PASS_DEPTH_MAX = 1000,      /* jobs looked at behind the first that must wait */
    PASS_TRIES_MAX = 4,         /* jobs in front for which room was sought in vain */
    PASS_ROOMS_MAX = 16,        /* jobs in front for which others make room */
    PASS_TOLD_MAX = 1000,       /* jobs in front that have their reason from the last pass */
    PASS_EXPLAINED_MAX = 64,    /* different requests explained to those that are only told */
};

struct refusal { /* the view only shrinks within a pass: what was refused once stays refused */
    const struct spec *spec;
    int64_t release_at_ms;
    bool met; /* room is being made for it, so another like it is looked at again */
    struct reason reason;
};

struct concession { /* what somebody gives so that a job that waits can start (preempt.h) */
    struct job *job;
    const struct node *node; /* the one it gives back; NULL = the gang ends */
    const struct job *to;    /* who waits */
    bool reclaimed;
    bool returns; /* the gang ends and starts again with fewer nodes */
    bool moves;   /* it takes another node instead (defrag.h) */
};

struct pass {
    struct view view;
    struct queue queue;
    struct parts parts; /* once something is reserved */
    struct refusal refusals[PASS_REFUSALS_MAX];
    int refusals_count, reservations;
    const struct job *reserved[PASS_RESERVATIONS_MAX]; /* and nobody makes room for them, in the
                                                        * order of the queue */
    int reserved_count;
    int explained;       /* to jobs that were only told */
    int refused, looked; /* jobs behind the first that must wait; with nothing left to give */
    int tries;           /* to make room for a job in front, in vain */
    const struct job *rooms[PASS_ROOMS_MAX]; /* who starts when those who leave have */
    int rooms_count;
    struct concession *given; /* asked for in this pass; each gang's stand together for each job */
    int given_count, given_capacity;
    bool moved; /* one of them moves: no more is asked */
    /* Begin a pass over the same things anew; NULL = over the cluster as it is. */
    void (*renew)(void *arg, struct pass *ret);
    void *renew_arg;
};

struct verdict {
    bool placed;
    struct placement placement; /* if placed: placement_fini */
    bool limited;               /* by its tenant */
    bool fresh;                 /* the reason was found for this job, not for one like it */
    struct reason reason;       /* if not */
    int64_t starts_at_ms;       /* if not: when it is expected to; 0 = nobody can say */
};

void pass_init(struct pass *pass, const struct cluster *cluster, int64_t now_ms);
void pass_fini(struct pass *pass);
struct job *pass_next(struct pass *pass);
/* Asked once for each: with nothing left to give only those in front matter, for whom others may
 * have to make room. */
bool pass_goes_on(struct pass *pass);
/* Nothing of it lives any more and its backoff is over. One that is not ready keeps what the view
 * gives it, so that nobody behind it takes its place, but does not start. */
bool pass_is_ready(const struct pass *pass, const struct job *job);
/* Place the job's smallest gang, or say why not and reserve. */
void pass_try(struct pass *pass, const struct job *job, struct verdict *ret);
/* After pass_goes_on has said no, asked once for each: is the job to be told why it waits? */
bool pass_tells(struct pass *pass);
/* Why it waits, without a place sought; false: too many different requests were explained. */
bool pass_tell(struct pass *pass, const struct job *job, struct reason *ret);
/* Somebody gives way; and the job now has what it waits for, once they have. */
void pass_note_given(struct pass *pass, const struct concession *given);
void pass_note_room(struct pass *pass, const struct job *job);
/* More nodes for a gang just placed, up to what it may have. */
void pass_extend(struct pass *pass, const struct job *job, struct placement *placement);
/* Nodes to keep beside a gang that runs, `nodes` at most and at least one; false: there are none.
 */
bool pass_spare(struct pass *pass, const struct job *job, int nodes, const char *together,
                struct placement *ret);
/* More nodes for a gang that runs, at least so many; false: there are none. `together` as in struct
 * request. */
bool pass_grow(struct pass *pass, const struct job *job, int least, const char *together,
               struct placement *ret);

#endif
