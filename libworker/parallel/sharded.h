/* A model with training state cut over the ranks. Memory of each rank for P parameters over N
 * ranks, in bytes (float32; o is the optimizer's state per parameter, 8 for Adam):
 *
 *                parameters      gradients     shard of both and o      reduced
 *      ZERO1     4P              4P            (4 + o) P/N              once per window
 *      ZERO2     4P              buckets       (8 + o) P/N              every backward pass
 *      FSDP      blocks in use   buckets       (8 + o) P/N              every backward pass
 *
 * Units (buckets, under FSDP blocks) are the plan's. Model and optimizer see two arenas in address
 * space. Unused parts are released to the system (pages.h) or take turns (sharded_slots.h), so
 * pointers never move. The optimizer works on the shard, which a table of its own describes.
 *
 * Collectives start in an order that depends on the model alone: units from the last to the first,
 * gathers by block, also on a rank with an empty share. The strategy's; its thread calls.
 *
 *      sharded.c         memory, initial values, the optimizer's step, the table
 *      sharded_blocks.c  what happens at the model's blocks
 *      sharded_grads.c   sums of gradients
 *      sharded_params.c  gathers of parameters
 *      sharded_low.c     both in bf16 and f16
 *      sharded_slots.c   units that take turns in a device's memory
 *      sharded_host.c    masters in the host's memory
 *      sharded_unit.c    where a unit is, and its phase
 */
#ifndef PARALLEL_SHARDED_H
#define PARALLEL_SHARDED_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/groups.h"
#include "libworker/parallel/masters.h"
#include "libworker/parallel/pages.h"
#include "libworker/parallel/shard.h"
#include "libworker/parallel/step_numbers.h"
#include "libworker/parallel/strategy_options.h"
#include "libworker/parallel/wire.h"

struct strategy_ops;

enum {
    SHARDED_REDUCES_MAX = 2,  /* units of gradients on their way at once */
    SHARDED_PREFETCH_MAX = 8, /* blocks gathered ahead, at most */
};

/* The gradients of a unit in a pass that sums them. A new pass leads from COLLECTED to OPEN, an
 * abandoned one from anywhere.
 *
 *      OPEN ──start──► REDUCING ──the row has its sum──► ADVANCED ──the column too──► COLLECTED
 */
enum unit_phase { UNIT_OPEN, UNIT_REDUCING, UNIT_ADVANCED, UNIT_COLLECTED };

struct sharded_unit {
    struct wire_work gather, reduce;
    struct event released; /* the device no longer uses the last gathered parameters */
    enum unit_phase phase;
    int nonfinite; /* not 0: the sum that `reduce` made is not finite */
    bool gathered; /* the parameters are in the arena (once `gather` is done) */
    int entered;   /* brackets of its block that passes are in */
    int missing;   /* gradients of this pass not yet announced */
    int n_params;
};

/* What there is in bf16 and f16 besides (sharded_low.h). */
struct sharded_low {
    struct pages param_pages, grad_pages, own_grad_pages, row_pages;
    uint16_t *params; /* [plan.padded], what products read; NULL in float */
    /* With narrowing.grads, else NULL: [trained.padded]; [trained.shard], within it under ZERO1. */
    uint16_t *grads, *own_grads;
    float *wide;    /* a piece of gradients on its way from one to the other; with `grads` */
    uint16_t *rows; /* [plan.shard]: rows of `params`, kept for masters on the host; or NULL */
    float *sums;    /* [sums_count]: sums on their way, with `grads` that take turns */
    size_t sums_count, n_vectors;
    float *vectors;     /* [n_vectors], where the model reads them */
    float *own_vectors; /* [n_vectors]: this rank's pieces, else zeros; of masters on the host */
    bool shown;         /* matrices are in the float arena too */
    bool nonfinite;     /* a sum of this window was not finite */
};

struct sharded {
    struct strategy_options options;
    struct wk_model *model; /* borrowed */
    bool hooked, all; /* gathers by block, else everything before a pass; all is, for reading */
    struct shard_plan plan, trained; /* the latter is its trained units, borrowed */
    float *params, *grads;           /* [plan.padded], [trained.padded] */
    float *own_params, *own_grads;   /* [plan.shard], [trained.shard], in `grads` under ZERO1 */
    struct sharded_low low;
    struct pages param_pages, grad_pages, own_param_pages, own_grad_pages; /* their memory */
    struct masters masters; /* own_params, if these are on the host: then `params` is too, */
    float *floats;          /* and this is a unit in float on the device, [floats_count] */
    size_t floats_count;
    struct param *own;            /* [n_own], this rank's pieces, as the optimizer sees them */
    int n_own, n_own_trained;     /* the latter come first */
    int *own_of;                  /* [model->n_params]: which of `own`, or -1 */
    struct sharded_unit *units;   /* [plan.n_units] */
    int *unit_of;                 /* [model->n_params] */
    bool *ready;                  /* [model->n_params] in this pass */
    struct step_numbers *numbers; /* borrowed */
    struct wk_comm *whole, *comm; /* of the passes under way: all ranks, this replica's; borrowed */
    struct groups groups;         /* of `whole` */
    bool reducing;                /* this pass sums over the ranks */
    bool following;               /* something is done with each unit once its gradients are in */
    bool last;                    /* it is its window's last */
    float factor;                 /* what its gradients are multiplied with before their sum */
    int depth, reduces;           /* blocks entered and not left; sums on their way */
    int next;                     /* unit to start next; -1 when all are */
    struct wire gathers, sums;    /* of parameters, and of gradients */
    struct event updated;         /* own_params are those of the last step */
    struct error why;             /* a sentence that no communicator has */
    int failure;                  /* first code a collective failed with */
};

extern const struct strategy_ops sharded_ops;

#endif
