/* What every model is inside libworker: its parameters as views into two flat arenas, and a table
 * of operations. parallel/ and step/ see models only through this header.
 *
 * The arenas belong to whoever bound them (step/prepare) and outlive the model's use of them. One
 * thread at a time; grad_ready is called on the thread that runs the backward pass.
 */
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/error.h>
#include <worker/nn.h>
#include <worker/types.h>

#include "common/base/error.h"
#include "libworker/kernel/kernel.h"

enum { PARAM_DIMS_MAX = 4, PARAM_NAME_MAX = 96 };

enum param_init { PARAM_ZERO, PARAM_ONE, PARAM_NORMAL };

struct param {
    char name[PARAM_NAME_MAX];
    int dims;
    int64_t shape[PARAM_DIMS_MAX]; /* row-major; unused dimensions are 0 */
    size_t count;                  /* product of shape */
    size_t offset;                 /* first element in either arena */
    float *data, *grad;            /* views into the arenas; NULL until model_bind */
    bool decay;                    /* weight decay applies: two or more dimensions */
    bool lookup;                   /* an embedding or a head: its rows stand for tokens */
    int block;                     /* unit of sharding and of pipeline cuts, rising with depth */
    enum param_init init;
    float init_std; /* of PARAM_NORMAL */
};

struct wk_model;

struct model_ops {
    const char *name; /* "gpt" */
    /* As model_forward, model_backward and model_logits below; the batch was validated. */
    int (*forward)(struct wk_model *, const struct wk_batch *, double *ret_loss, struct error *);
    int (*backward)(struct wk_model *, float scale, struct error *); /* by the denominator too */
    int (*logits)(struct wk_model *, const struct wk_batch *, float *ret_logits, struct error *);
    void (*free)(struct wk_model *); /* the implementation's own memory, and the struct */
};

struct wk_model {
    const struct model_ops *ops;
    const struct kernel_table *kernels;
    struct param *params; /* [n_params], in arena order */
    int n_params;
    int n_blocks;
    size_t count; /* elements of each arena */
    int64_t context, vocab;
    float *param_arena, *grad_arena; /* [count]; NULL until bound; grads may stay NULL */
    bool seed_waits;                 /* wk_model_init came before model_bind */
    uint64_t seed;
    bool forward_done;     /* activations of one forward pass wait for their backward */
    struct wk_batch batch; /* of that pass, with the denominator filled in */

    /* Called in backward order, once per parameter and backward pass, when that pass adds nothing
     * more to params[index].grad. May be NULL.
     */
    void (*grad_ready)(void *arg, int index);
    void *grad_ready_arg;
};

/* Let the model use these arenas of model->count floats from now on; `grads` NULL means no backward
 * pass. May be called again with other arenas (contents are not copied). Applies a waiting seed.
 */
int model_bind(struct wk_model *model, float *params, float *grads);

/* The parameter of this name, or NULL. */
struct param *model_param(struct wk_model *model, const char *name);

/* For implementations: announce a gradient as final. */
void model_announce(struct wk_model *model, int index);

/* Loss of batch->tokens [samples, length] against batch->targets [samples, length]: cross-entropy
 * summed over all positions and divided by batch->denominator (0: samples * length). Keeps the
 * activations for one backward pass; their memory grows to the largest batch seen. The batch's
 * arrays must live until then. samples 0 gives loss 0. WK_EINVAL for a token outside the vocabulary
 * or a length outside 1…context, WK_ESTATE unbound, WK_ENOMEM.
 */
int model_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                  struct error *err);

/* grads += scale * d(loss of the last forward)/d(params). Once per forward pass: WK_ESTATE
 * otherwise. With samples 0 adds nothing and still announces every gradient.
 */
int model_backward(struct wk_model *model, double scale, struct error *err);

void model_zero_grad(struct wk_model *model);

/* Logits of the last position of each sample: ret_logits [samples, vocab]. batch->targets unused.
 */
int model_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                 struct error *err);

#endif
