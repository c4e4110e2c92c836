/* Sums of gradients over the ranks while the backward pass still runs, for ranks that each have the
 * whole model.
 *
 * Gradients are in one arena and buckets are ranges of it (ready.h), so nothing is copied. A
 * bucket's sum starts when its last gradient is announced and all buckets before it have started.
 * The order is therefore the same on every rank, whatever the order of gradients. The hook decides
 * how a range is summed. The step's numbers (step_numbers.h) are summed last.
 *
 * Where the host cannot read gradients, hooks sum a copy (stage.h). A bucket is fetched when it is
 * due. Its sum starts after the next bucket's fetch is enqueued: the device has work while the host
 * waits for the copy. With collectives of the device (wires.h), plain sums and those of narrowed
 * gradients are calls of the wire instead.
 *
 * The first pass with a communicator uses buckets from the arena's end. Then rank 0 sends all the
 * order of its gradients, and they are cut again.
 *
 *              begin, last             flush               finish
 *        IDLE ─────────────► SUMMING ─────────► FLUSHED ─────────────► IDLE
 *          └────────────────► LOCAL ─────────────────────────────────► IDLE
 *              begin, other                     finish
 *
 * reducer_drain leads from each of them to IDLE. One thread. Any thread may abort the communicator:
 * reducer_finish then returns its code, and the arena is undefined. Source: Li et al. 2020, sec. 3.
 */
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/ready.h"
#include "libworker/parallel/step_numbers.h"
#include "libworker/parallel/wire.h"

struct wk_model;

struct reducer_options {
    struct bucket_sizes sizes;
    /* Every pass announces the same gradients as the first, as often. A gradient is final at its
     * last announcement; one that is never announced does not delay its bucket. */
    bool static_graph;
};

enum reducer_phase { REDUCER_IDLE, REDUCER_LOCAL, REDUCER_SUMMING, REDUCER_FLUSHED };

struct reducer {
    struct reducer_options options;
    const struct param *params; /* [n_params], borrowed */
    int n_params;
    float *grads; /* [count], borrowed */
    size_t count;
    const struct wk_model *model; /* of them, borrowed */
    struct wire *wire;            /* borrowed */
    struct stage *stage;     /* [count] floats that hooks see; NULL: grads, or not needed yet */
    struct event fetched;    /* of the last bucket that was fetched there */
    enum wire_way way;       /* of this pass; OWN only with by_wire */
    bool by_wire;            /* the wire sums in this pass */
    struct wire_work *works; /* [n_params], by run of the plan: those */
    struct step_numbers *numbers; /* borrowed */
    struct grad_hook hook;
    float factor; /* what gradients are multiplied with before the hook sees them; 1 at init */
    struct ready_plan plan;
    struct wk_gradients *parts; /* [n_params], by run of the plan */
    int *order;                 /* [n_params]: the plan's; while it is observed, this pass's */
    int *times;                 /* [n_params]: announcements in this pass */
    int *expected;              /* [n_params]: how many make a gradient final */
    int *last;                  /* [n_params]: time of the announcement that counts */
    int *missing;               /* [n_params], by bucket: gradients not final yet */
    struct wk_comm *comm;       /* of this pass; borrowed */
    enum reducer_phase phase;
    bool ordered;  /* the plan is in the order observed with this communicator */
    bool recorded; /* static graph: expected is that of the first pass */
    int clock, started, started_parts, begun; /* begun: buckets whose sum has */
    int failure;                              /* first code a collective or a copy failed with */
    struct error why;                         /* the sentence of a failed copy */
};

/* The gradients are the model's, which has its memory. WK_ENOMEM. */
int reducer_init(struct reducer *r, const struct wk_model *model, struct wire *wire,
                 struct step_numbers *numbers, const struct reducer_options *options,
                 struct error *err);
void reducer_fini(struct reducer *r); /* zeroed memory is allowed; after reducer_drain */

/* What hooks see of all gradients: the arena, or a copy on the host. WK_ENOMEM. */
int reducer_seen(struct reducer *r, float **ret_grads, struct error *err);

void reducer_set_hook(struct reducer *r, const struct grad_hook *hook); /* outside a pass */

/* True if this pass leaves its gradients where they are: they are not on the host, and their hook
 * would change nothing. Then it sees none of them. */
bool reducer_rests(const struct reducer *r);

/* Another communicator: orders and graphs are observed again. */
void reducer_meet(struct reducer *r);

/* A backward pass begins; if `last`, its gradients are to be summed over `comm`. */
void reducer_begin(struct reducer *r, struct wk_comm *comm, bool last);

/* params[index].grad is final in this pass (or, in a static graph, may be). */
void reducer_ready(struct reducer *r, int index);

/* Whether this pass announced other gradients than a static graph promises. */
bool reducer_changed(const struct reducer *r);

/* The pass is over: unannounced parameters are summed as they are. Starts all remaining sums. */
void reducer_flush(struct reducer *r);

/* Wait for all sums. 0, also of a pass without sums, or the first failure (WK_EPEER, WK_EABORT, …).
 * Collective. */
int reducer_finish(struct reducer *r);

/* Wait only for started sums, for a pass that is abandoned. */
int reducer_drain(struct reducer *r);

#endif
