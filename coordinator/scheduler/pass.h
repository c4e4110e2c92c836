/* One pass over the queue: each waiting job in order gets the smallest gang it can run with, or a
 * reservation; what is left then makes gangs larger. core performs what it says; `why` and `plan`
 * only look. Pure.
 *
 *   pass_init -> { pass_next -> pass_try }* -> pass_extend for those placed -> pass_fini
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
    PASS_TRIES_MAX = 4,         /* jobs in front for which others may have to make room */
};

struct refusal { /* the view only shrinks within a pass: what was refused once stays refused */
    const struct spec *spec;
    int64_t release_at_ms;
    struct reason reason;
};

struct pass {
    struct view view;
    struct queue queue;
    struct parts parts; /* once something is reserved */
    struct refusal refusals[PASS_REFUSALS_MAX];
    int refusals_count, reservations;
    const struct job *reserved[PASS_RESERVATIONS_MAX]; /* for whom, in the order of the queue */
    int refused, looked; /* jobs behind the first that must wait; with nothing left to give */
    int tries;           /* to make room for a job in front */
    bool conceded;       /* somebody makes room in this pass */
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
/* More nodes for a gang just placed, up to what it may have. */
void pass_extend(struct pass *pass, const struct job *job, struct placement *placement);
/* Nodes to keep beside a gang that runs, `nodes` at most and at least one; false: there are none.
 */
bool pass_spare(struct pass *pass, const struct job *job, int nodes, const char *together,
                struct placement *ret);
/* More nodes for a gang that runs, at least one; false: there are none. `together` as in struct
 * request. */
bool pass_grow(struct pass *pass, const struct job *job, const char *together,
               struct placement *ret);

#endif
