/* Data parallelism: every rank has the whole model and updates all of it, so that only gradients
 * are sent. The reducer sums them while the backward pass runs. Memory in bytes for P parameters:
 *
 *      params   4P   master
 *      low      2P   what products read, in bf16 and f16 only; each optimizer step writes it
 *      grads    4P   where the ranks sum them (sums_arena.h)
 *
 * All of it is memory of the model's place. Where the host cannot read that, the gradients that
 * hooks sum are 4P more of pinned host memory (stage.h), unless the device sums them (wires.h).
 *
 * Owned by the strategy, whose thread calls. Source: Li et al. 2020, "PyTorch Distributed".
 */
#ifndef PARALLEL_DDP_H
#define PARALLEL_DDP_H

#include "libworker/parallel/sums_arena.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/masters.h"
#include "libworker/parallel/narrow.h"
#include "libworker/parallel/reducer.h"

struct strategy_ops;
struct wk_model;

struct ddp {
    struct wk_model *model;       /* borrowed */
    struct step_numbers *numbers; /* borrowed */
    struct narrowing narrowing;
    float *params;          /* [model->count], in `masters` if these are on the host */
    struct masters masters; /* then also: */
    float *vectors;         /* [n_vectors], where the model reads them */
    size_t n_vectors;
    struct param *own;       /* [model->n_params], whose data is the master; else NULL */
    struct sums_arena arena; /* memory of grads */
    float *grads;            /* [model_trained_count] */
    uint16_t *low;           /* [model->count]; NULL in float */
    struct wire wire;
    uint16_t *low_grads; /* [model->count], narrowed before they are on the host; mostly NULL */
    struct reducer reducer;
    struct grad_hook hook; /* the setting's */
};

extern const struct strategy_ops ddp_ops;

#endif
