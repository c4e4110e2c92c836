/* A model with training state cut over the ranks. Memory of each rank for P parameters over N
 * ranks, in bytes (float32; o is the optimizer's state per parameter, 8 for Adam):
 *
 *                parameters      gradients     shard of both and o      reduced
 *      ZERO1     4P              4P            (4 + o) P/N              once per window
 *      ZERO2     4P              buckets       (8 + o) P/N              every backward pass
 *      FSDP      blocks in use   buckets       (8 + o) P/N              every backward pass
 *
 * Units (buckets, under FSDP blocks) are the plan's. Model and optimizer see two arenas in address
 * space. Unused parts of them are released to the system (pages.h), so pointers never move. The
 * optimizer works on the shard, which a table of its own (`own`) describes.
 *
 * Collectives start in an order that depends on the model alone: units from the last to the first,
 * gathers by block. A rank with an empty share of a batch makes them through sharded_empty_pass.
 * One thread.
 */
#ifndef PARALLEL_SHARDED_H
#define PARALLEL_SHARDED_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/bucket.h"
#include "libworker/parallel/groups.h"
#include "libworker/parallel/narrow.h"
#include "libworker/parallel/pages.h"
#include "libworker/parallel/shard.h"

enum sharding { SHARDING_ZERO1, SHARDING_ZERO2, SHARDING_FSDP };

enum {
    SHARDED_REDUCES_MAX = 2,  /* units of gradients on their way at once */
    SHARDED_PREFETCH_MAX = 8, /* blocks gathered ahead, at most */
};

struct sharded_options {
    enum sharding sharding;
    int rank, world; /* of the ranks that share one model: layout's part and shards */
    struct bucket_sizes sizes;
    size_t extras; /* numbers that are summed with the gradients */
    int prefetch;  /* blocks gathered ahead of the one in use: 0 … SHARDED_PREFETCH_MAX */
    struct narrowing narrowing;
    bool fill_later;     /* sharded_fill sets initial values */
    const char *offload; /* folder that this rank's parameters are in, or NULL; borrowed at init */
    bool keep_gathered; /* FSDP: a block stays until its backward pass (no reshard after forward) */
};

struct sharded_unit {
    struct wk_work *gather, *reduce;
    int wild;       /* not 0: the sum that `reduce` made is not finite */
    bool gathered;  /* the parameters are in the arena (once `gather` is done) */
    bool reduced;   /* of this pass: on its way or done */
    bool advanced;  /* of this pass: its sum over the row is there, that over the column starts */
    bool collected; /* of this pass: added to the shard */
    int missing;    /* gradients of this pass not yet announced */
    int n_params;
};

/* What there is in bf16 and f16 besides (sharded_low.h). */
struct sharded_low {
    struct pages param_pages, grad_pages, own_grad_pages;
    uint16_t *params; /* [plan.padded], what products read; NULL in float */
    /* With narrowing.grads, else NULL: [plan.padded]; [plan.shard], under ZERO1 within `grads`. */
    uint16_t *grads, *own_grads;
    float *wide;    /* a piece of gradients on its way from one to the other; with `grads` */
    float *vectors; /* [n_vectors], where the model reads them */
    size_t n_vectors;
    bool shown; /* matrices are in the float arena too */
    bool wild;  /* a sum of this window was not finite */
};

struct sharded {
    struct sharded_options options;
    struct wk_model *model; /* borrowed */
    bool hooked;            /* gathers by block; else everything before a pass */
    struct shard_plan plan;
    float *params, *grads;         /* [plan.padded] */
    float *own_params, *own_grads; /* [plan.shard]; own_grads is in `grads` under ZERO1 */
    struct sharded_low low;        /* of narrowing */
    struct pages param_pages, grad_pages, own_param_pages, own_grad_pages; /* their memory */
    struct param *own; /* [n_own], this rank's pieces, as the optimizer sees them */
    int n_own;
    int *own_of;                /* [model->n_params]: which of `own`, or -1 */
    struct sharded_unit *units; /* [plan.n_units] */
    int *unit_of;               /* [model->n_params] */
    bool *ready;                /* [model->n_params] in this pass */
    float *extras;              /* [options.extras] */
    struct wk_work *extras_work;
    struct wk_comm *whole, *comm; /* of the passes under way: all ranks, this replica's; borrowed */
    struct groups groups;         /* of `whole` */
    bool passing;                 /* between begin and finish */
    bool reducing;                /* this pass sums over the ranks */
    bool following;               /* something is done with each unit once its gradients are in */
    bool last;                    /* it is its window's last */
    float factor;                 /* what its gradients are multiplied with before their sum */
    int depth;                    /* blocks entered and not left */
    int next;                     /* unit to start next; -1 when all are */
    int reduces;                  /* on their way */
    int failure;                  /* first code a collective failed with */
};

/* Allocate, bind the model's pointers and fill in its initial values. WK_ENOMEM. */
int sharded_init(struct sharded *s, struct wk_model *model, const struct sharded_options *options,
                 struct error *err);
void sharded_fini(struct sharded *s); /* zeroed memory is allowed; after sharded_drain */

/* Use another communicator, with both arenas visible to its ranks in place. WK_ENOMEM. */
int sharded_meet(struct sharded *s, struct wk_comm *comm);

/* Make the groups of a communicator, after the distribution of parts is known. Collective. */
int sharded_regroup(struct sharded *s, struct wk_comm *comm, const struct layout *layout,
                    struct error *err);

/* Initial values that rank 0 of `comm` alone reads, unit by unit. Collective. */
int sharded_fill(struct sharded *s, struct wk_comm *comm, struct error *err);

/* Hooks at the model's blocks: FSDP's gathers. `s` must not move afterwards. */
struct model_hooks sharded_hooks(struct sharded *s);

/* The shard changed by other means than sharded_updated (loaded, carried over): the parameters in
 * the arena are stale. Gathers them where the strategy keeps them. */
int sharded_refresh(struct sharded *s, struct wk_comm *comm);

/* For use without a pass of ours: the master of everything, gathered in float; what passes of the
 * program's own read; FSDP's blocks given back (else nothing). */
int sharded_gather_all(struct sharded *s, struct wk_comm *comm);
int sharded_gather_own(struct sharded *s, struct wk_comm *comm);
void sharded_release_all(struct sharded *s);

/* The communicator for gathers of the coming passes. */
void sharded_use(struct sharded *s, struct wk_comm *comm);

/* A backward pass begins; `last` of its window or not. Extras are summed at the last one's end. */
void sharded_begin(struct sharded *s, struct wk_comm *comm, bool last);
void sharded_ready(struct sharded *s, int index);
void sharded_flush(struct sharded *s);

/* Make the collectives of a pass that this rank has no samples for. */
int sharded_empty_pass(struct sharded *s, enum model_pass pass, struct error *err);

/* Wait for everything of the pass. 0 or the first failure. */
int sharded_finish(struct sharded *s);

/* The sentence of a failure, of whichever communicator had it. */
const char *sharded_error(const struct sharded *s);

/* In bf16 and f16: whether all sums of the window are finite; the same on all ranks. */
bool sharded_finite(const struct sharded *s);

/* After a failure and before the end: wait for what is still under way. */
void sharded_drain(struct sharded *s);

/* Sum over all ranks of the squares of the reduced gradient. Collective. */
int sharded_squares(struct sharded *s, double *ret);

/* own_params has the next step's values. ZeRO gathers them, FSDP releases the old ones. Collective.
 */
int sharded_updated(struct sharded *s, struct wk_comm *comm);

/* Multiply the gradients that wait for their sum in a later pass, if any do. */
void sharded_rescale(struct sharded *s, float factor);

/* Gradients and extras of the window are not wanted any more. */
void sharded_clear(struct sharded *s);

#endif
