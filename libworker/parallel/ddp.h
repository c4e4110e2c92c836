/* Data parallelism: every rank has the whole model, and gradients are summed over the ranks while
 * the backward pass still runs.
 *
 * Gradients are in one arena and buckets are ranges of it (ready.h), so nothing is copied. A
 * bucket's sum starts when its last gradient is announced and all buckets before it have started.
 * The order is therefore the same on every rank, whatever the order of gradients. The hook decides
 * how a range is summed. After the gradients are the step's own numbers, control messages such as
 * stop and save (step/context.h). They are summed last, always exactly.
 *
 * The first pass with a communicator uses buckets from the arena's end. Then rank 0 sends all the
 * order of its gradients, and they are cut again.
 *
 * One thread. Any thread may abort the communicator; ddp_finish then returns the failure's code and
 * the arena's content is undefined. Source: Li et al. 2020, section 3.
 */
#ifndef PARALLEL_DDP_H
#define PARALLEL_DDP_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/comm.h>
#include <worker/parallel.h>

#include "common/base/error.h"
#include "libworker/parallel/ready.h"

struct ddp_options {
    struct bucket_sizes sizes;
    /* Every pass announces the same gradients as the first, as often. A gradient is final at its
     * last announcement; one that is never announced does not delay its bucket. */
    bool static_graph;
};

struct ddp {
    struct ddp_options options;
    const struct param *params; /* [n_params], borrowed */
    int n_params;
    float *grads;      /* [all], borrowed */
    size_t count, all; /* of the model, and with the step's numbers */
    struct wk_gradient_hook hook;
    float factor; /* what gradients are multiplied with before the hook sees them; 1 at init */
    struct ready_plan plan;
    struct wk_gradients *parts; /* [n_params], by run of the plan */
    int *order;                 /* [n_params]: the plan's; while it is observed, this pass's */
    int *times;                 /* [n_params]: announcements in this pass */
    int *expected;              /* [n_params]: how many make a gradient final */
    int *last;                  /* [n_params]: time of the announcement that counts */
    int *missing;               /* [n_params], by bucket: gradients not final yet */
    struct wk_comm *comm;       /* of this pass; borrowed */
    struct wk_work *tail;       /* the sum of the step's numbers */
    bool passing, syncing;      /* in a pass; in a pass with summed gradients */
    bool ordered;               /* the plan is in the order observed with this communicator */
    bool recorded;              /* static graph: expected is that of the first pass */
    int clock, started, started_parts;
    int failure; /* first code a collective failed with */
};

/* grads[all]: those of the parameters, and after `count` the step's numbers. WK_ENOMEM. */
struct ddp_arena {
    const struct param *params;
    int n_params;
    float *grads;
    size_t count, all;
};
int ddp_init(struct ddp *ddp, const struct ddp_arena *arena, const struct ddp_options *options,
             struct error *err);
void ddp_fini(struct ddp *ddp); /* zeroed memory is allowed; does not wait: call ddp_finish first */

/* Outside a pass, and before the first. */
void ddp_set_hook(struct ddp *ddp, const struct wk_gradient_hook *hook);

/* Another communicator: orders and graphs are observed again. */
void ddp_meet(struct ddp *ddp);

/* A backward pass begins; if `last`, its gradients are to be summed over `comm`. */
void ddp_begin(struct ddp *ddp, struct wk_comm *comm, bool last);

/* params[index].grad is final in this pass (or, in a static graph, may be). Outside begin…finish
 * nothing happens. */
void ddp_ready(struct ddp *ddp, int index);

/* Whether this pass announced other gradients than a static graph promises. */
bool ddp_changed(const struct ddp *ddp);

/* The pass is over: unannounced parameters are summed as they are. Starts all remaining sums. */
void ddp_flush(struct ddp *ddp);

/* Wait for all sums. 0, also without a pass to sum, or the first failure (WK_EPEER, WK_EABORT, …).
 * Collective. */
int ddp_finish(struct ddp *ddp);

/* Wait only for started sums, for a pass that is abandoned. */
int ddp_drain(struct ddp *ddp);

#endif
