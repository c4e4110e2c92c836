/* A model inside libworker: its parameters as views into two flat arenas, and a table of
 * operations. parallel/ and step/ see models only through this header.
 *
 * The arenas belong to their binder (parallel/) and outlive the model's use of them; they are
 * memory of the place that the model computes in, which only launches touch. One thread at a time;
 * grad_ready is called on the thread of the backward pass.
 */
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/error.h>
#include <worker/nn.h>
#include <worker/types.h>

#include "common/base/kept.h"
#include "libworker/kernel/kernel.h"
#include "libworker/nn/buffers.h"
#include "libworker/nn/hooks.h"
#include "libworker/nn/model_ops.h"
#include "libworker/nn/parameter.h"
#include "libworker/nn/product.h"

struct queue;

struct model_block {
    int first, n_params;
    size_t offset, count; /* elements of either arena */
};

/* Source of initial values instead of the seed. `fill` writes all of param->data; in `index`
 * buffers follow the parameters. `free` (or NULL) ends it with the model. */
struct model_values {
    int (*fill)(void *arg, const struct param *param, int index, struct error *err);
    void (*free)(void *arg);
    void *arg;
};

struct wk_model {
    const struct model_ops *ops;
    struct error_ear ear; /* of the context it is prepared in */
    const void *owned_by; /* the context that frees it, or NULL; kept by step/ */
    void *kind;           /* what it was made of (models/kind.h), freed with it; or NULL */
    struct unit *unit;    /* what it is in the context it is prepared in, or NULL; kept by step/ */
    const struct kernel_table *kernels;
    struct param *params; /* [n_params], in arena order */
    int n_params;
    int n_blocks;
    const int *order;    /* [n_blocks]: as forward passes enter blocks; NULL: 0, 1, 2 … */
    size_t count;        /* elements of the arena of parameters */
    int n_frozen;        /* the last parameters: they have no gradient */
    size_t frozen_count; /* their elements, the arena's last */
    struct buffers buffers;
    int64_t context, vocab; /* 0: passes are the program's own, and `ops` has no forward ones */
    struct queue *queue;    /* where it computes, borrowed; NULL: on the host */
    float *param_arena;     /* [count] of that place; NULL until bound */
    float *grad_arena;      /* [model_trained_count] of that place; may stay NULL */
    bool seed_waits;        /* wk_model_init was called before model_bind */
    uint64_t seed;
    struct model_values values;
    bool forward_done;      /* activations of one forward pass wait for their backward */
    struct wk_batch batch;  /* of that pass */
    const double *divisors; /* of each loss in the next pass (nn/count.h); NULL: the batch's */

    /* How it computes; change between passes, and bind before set_compute. */
    const struct low *low; /* products in bf16 or f16; NULL in float */
    struct low low_storage;
    enum wk_recompute recompute;
    int64_t recompute_bytes;
    bool offloads; /* values wait for their backward pass in the host's memory, where it is other */
    float label_smoothing; /* in [0, 1) */
    bool drops;            /* there is something that `dropout` drops */
    float dropout;         /* share dropped, in [0, 1) */
    uint64_t dropout_seed;
    struct model_hooks hooks;
    struct model_ranks ranks;

    /* For a program's own passes (worker/parallel.h). */
    float **bound_data, **bound_grads; /* [n_params], the program's; NULL where not wanted */
    bool mean_of_share;

    /* Called in backward order, once per parameter and backward pass, when that pass adds nothing
     * more to params[index].grad. May be NULL. */
    void (*grad_ready)(void *arg, int index);
    void *grad_ready_arg;
};

/* Parameters that are trained: the first ones, which begin both arenas. */
static inline int model_trained(const struct wk_model *model)
{
    return model->n_params - model->n_frozen;
}

static inline size_t model_trained_count(const struct wk_model *model)
{
    return model->count - model->frozen_count;
}

/* The result of a constructor that failed: the sentence is stored for the thread. */
int model_refuse(const struct error *err, struct wk_model **ret_model);
int model_refuse_memory(struct wk_model **ret_model);

/* wk_model_init, which a prepared model refuses, for the code that prepares it. Where the model is
 * bound it writes the values: fails as model_fill. */
int model_seed(struct wk_model *model, uint64_t seed);

/* Let the model compute on this queue from now on, which outlives its use; NULL: on the host again.
 * Its arenas must then be memory of the queue's device (model_bind). A waiting pass is forgotten.
 * WK_EUNSUPPORTED: its passes need memory that the host can read, or kernels that the device lacks;
 * it is on the host then. */
int model_move(struct wk_model *model, struct queue *queue, struct error *err);

/* Let the model use these arenas (param_arena, grad_arena); `grads` NULL means no backward pass. It
 * may be called again with other arenas (contents are not copied). Applies a waiting seed, but no
 * values from elsewhere: those may fail, and model_fill reports how. */
int model_bind(struct wk_model *model, float *params, float *grads);

/* Take initial values from elsewhere from now on; what was there before is freed. */
void model_set_values(struct wk_model *model, const struct model_values *values);

/* Write the initial value of parameter `index` to ret: its `host`, or else memory of the model's
 * place, which need not be where the model reads it. Waits. Fails as model_values' fill; WK_ENOMEM;
 * the device's failure. */
int model_fill(struct wk_model *model, int index, float *ret, struct error *err);

/* The parameters of block `block` in [0, n_blocks). */
struct model_block model_block(const struct wk_model *model, int block);

/* Let matrix products use factors in `type`: WK_F32, or WK_BF16 or WK_F16 with the parameters in
 * that type at low[count]. The caller keeps those up to date (optimizer_set_copy does; NULL if
 * before_block supplies them). Sums, norms, softmax, loss and gradients stay in float. The result
 * depends on the machine only by the order of sums. WK_EINVAL for another type, WK_ENOMEM. */
int model_set_compute(struct wk_model *model, enum wk_dtype type, const uint16_t *low,
                      struct error *err);

/* In bf16 and f16 a model reads its matrices (parameters of two or more dimensions) only from
 * `low`, embedding tables included, and its vectors only from `data`. A custom model also reads
 * from `low` the vectors that its passes take narrow. */
bool model_reads_low(const struct param *param);

/* low[count] from the parameters as they are now. */
void model_write_low(const struct wk_model *model, enum wk_dtype type, uint16_t *low);

/* For implementations: the brackets of a block. */
int model_enter(struct wk_model *model, int block, enum model_pass pass, struct error *err);
int model_leave(struct wk_model *model, int block, enum model_pass pass, struct error *err);

/* The parameter of this name, or NULL. */
struct param *model_param(struct wk_model *model, const char *name);

/* For implementations: announce a gradient as final. */
void model_announce(struct wk_model *model, int index);

/* Loss of batch->tokens [samples, length] against batch->targets [samples, length]: the
 * cross-entropy summed over all positions except those with target WK_IGNORED, divided by
 * model->divisors, or batch->denominator (0: such positions). Keeps the activations for a backward
 * pass; their memory grows to the largest batch so far. The batch's arrays must live until then.
 * samples 0 has loss 0. With ret_loss NULL nothing waits for the loss, if there is a keep_loss.
 * WK_EINVAL for a token outside the vocabulary or a length outside 1…context, WK_ESTATE unbound,
 * WK_ENOMEM. */
int model_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                  struct error *err);

/* Enqueue *to, in memory of the model's place, from the loss of the last forward pass, or from that
 * which the program's own passes named. The model computes on a queue. */
void model_keep_loss(struct wk_model *model, double *to);

/* grads += scale * d(loss of the last forward)/d(params). Once per forward pass: WK_ESTATE
 * otherwise. With samples 0 adds nothing and still announces every gradient.
 */
int model_backward(struct wk_model *model, double scale, struct error *err);

/* Allocate and touch the memory for passes of this many samples of this length, and forget a
 * waiting pass; samples 0 releases all of it. WK_ENOMEM; WK_EINVAL for a length outside 1…context.
 */
int model_reserve(struct wk_model *model, int64_t samples, int64_t length, struct error *err);

void model_zero_grad(struct wk_model *model);

/* The loss of the model in use: like model_forward, but without dropout and label smoothing, and
 * without a backward pass; and the values that `outputs` asks for. Without targets the loss is 0
 * and its parts are WK_EINVAL. Nothing is written for samples 0. */
int model_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                   const struct wk_outputs *outputs, struct error *err);

/* Logits of the last position of each sample: ret_logits [samples, vocab]. No targets needed. */
int model_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                 struct error *err);

#endif
