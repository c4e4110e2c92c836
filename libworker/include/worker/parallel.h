/* Models whose forward and backward are the program's own, and control over when gradients are
 * summed.
 *
 * A custom model is a list of named buffers. wk_prepare gives them a place in the arenas: the
 * program reads and writes parameters through wk_parameter_data and adds gradients, of the loss
 * summed over this rank's share and divided by the batch's denominator, to wk_parameter_grad; with
 * wk_mean_of_share, of the mean over its share. Its loop is wk_next, its own forward pass, its own
 * backward pass calling wk_grad_ready as gradients become final, then wk_backward (which scales by
 * the accumulation window, so gradients are given unscaled), wk_step.
 *
 * With mixed_precision bf16 or fp16 the optimizer keeps its parameters in float, and passes see
 * them rounded, as those of our own models do: matrices, and vectors with `narrow`. A program whose
 * kernels multiply narrow numbers says so for each buffer (wk_buffer.narrow) and reads bits; any
 * other reads floats that hold the rounded values, and needs to know nothing of all this. In fp16 a
 * program that reads bits multiplies its loss with wk_backward_scale before it goes backward.
 */
#ifndef WORKER_PARALLEL_H
#define WORKER_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_comm;
struct wk_context;
struct wk_model;

enum { WK_BUFFER_DIMS_MAX = 4 };

/* What passes do with a buffer in the type of mixed_precision; or-ed. */
enum {
    WK_TAKES_BF16 = 1,  /* bf16: they read its bits and give its gradient in bf16 */
    WK_TAKES_F16 = 2,   /* fp16: the same in f16, their loss multiplied with wk_backward_scale */
    WK_GIVES_FLOAT = 4, /* but give the gradient in float */
};

struct wk_buffer {
    const char *name; /* unique, below 96 bytes */
    int dims;         /* 1 … WK_BUFFER_DIMS_MAX */
    int64_t shape[WK_BUFFER_DIMS_MAX];
    /* [product of shape], copied at wk_prepare and not needed later; NULL: zeros */
    const float *initial;
    bool decay;      /* takes weight decay though it has one dimension; those of more do anyway */
    unsigned narrow; /* 0: passes read and give floats, whatever mixed_precision is */
    bool no_decay;   /* takes none though it has two dimensions or more; not with `decay` */
};

/* WK_EINVAL, whose reason wk_last_error(NULL) has, WK_ENOMEM. `buffers` are only read during the
 * call, but for `initial`. */
WK_API int wk_custom_new(const struct wk_buffer *buffers, int n_buffers,
                         struct wk_model **ret_model);

/* Where parameter `index` and its gradient live until the next wk_next or wk_join, in which a gang
 * of another size may cut the model anew, elsewhere: ask in each pass (of what is readable there
 * and when, see wk_gather_parameters). NULL before wk_prepare, out of range and for NULL, so what
 * could not be made needs no check. */
WK_API float *wk_parameter_data(struct wk_model *model, int index);
WK_API float *wk_parameter_grad(struct wk_model *model, int index);

/* The same for all parameters in one call: data[i] and grads[i] are set to where parameter i and
 * its gradient live, now and whenever that changes (in wk_prepare, wk_next, wk_join, wk_update,
 * wk_step and wk_gather_parameters), so a pass that goes by them needs to ask nothing. Each array
 * has wk_model_parameters(model) pointers, stays the program's and is there until wk_close; NULL is
 * not wanted, both NULL end it. WK_EINVAL for NULL instead of a model. */
WK_API int wk_bind_parameters(struct wk_model *model, float **data, float **grads);

/* This model's passes give loss and gradients as means over this rank's own share (llm.c's and
 * torch's losses are), so libworker weighs each pass: with the share of the batch that wk_next has
 * dealt last, samples * length / denominator, or with what wk_join was given, for which the number
 * of samples then stands. The step is the same mean over all samples as without it, in any world. A
 * share without samples weighs nothing: its loss may be NaN, its pass adds no gradient. The ranks
 * say the same (else WK_EMISMATCH). WK_EINVAL for a model of ours, WK_ESTATE after wk_prepare. */
WK_API int wk_mean_of_share(struct wk_model *model, bool on);

/* In which type passes read parameter `index`: WK_F32 for wk_parameter_data, or WK_BF16 or WK_F16
 * for wk_parameter_low, which is NULL otherwise. It holds the rounded numbers from wk_next to
 * wk_step, not to be written to. WK_F32 before wk_prepare, out of range and for NULL. */
WK_API enum wk_dtype wk_parameter_type(const struct wk_model *model, int index);
WK_API const uint16_t *wk_parameter_low(struct wk_model *model, int index);

/* Where its gradient is given in that type; NULL: in float (wk_parameter_grad). Zeros when a pass
 * begins; what the pass has added is taken over into float with wk_grad_ready, or by wk_backward.
 */
WK_API uint16_t *wk_parameter_low_grad(struct wk_model *model, int index);

/* What passes of the program's own multiply their loss with before they go backward, so that no
 * gradient is too small for f16: the loss scale where a buffer of the model takes f16 and
 * mixed_precision is fp16, else 1. Every gradient of the model carries it, also one given in float;
 * wk_set_loss is told the loss without it. Changes in wk_step only: ask in each pass. 1 for a model
 * that is not prepared. */
WK_API double wk_backward_scale(const struct wk_model *model);

/* Parameter `index` gets no more gradient in this backward pass: its sum over the ranks may start.
 * A pass announces all of them, or none, which costs only the overlap; with setting ddp.find_unused
 * it may leave some out, whose gradient is then what the other ranks have; without it wk_step fails
 * on every rank and names them. With ddp.static_graph a parameter is announced as often as it was
 * in the first pass, and is final the last time. WK_EINVAL for an index out of range, WK_ESTATE
 * before wk_prepare. */
WK_API int wk_grad_ready(struct wk_model *model, int index);

/* While on, backward passes only add to this rank's gradients; the sum over the ranks happens in
 * the first wk_backward after it is off again. Ranks switch together. */
WK_API int wk_no_sync(struct wk_model *model, bool on);

/* In the place of wk_next for programs that bring their own data, of which ranks may have different
 * amounts. `weight`: what this rank gives to the coming pass, 0 for nothing. The step takes the
 * ranks' gradients (and losses) added up and divided by their weights: with weight 1 and gradients
 * of the mean over its own samples, the mean over the ranks that take part; with the number of its
 * samples and gradients of the sum over them, the mean over all samples.
 *
 *     for (;;) {                                       |  while (wk_join(ctx, mine.left)) {
 *         first = wk_steps(ctx) * batch;               |      int64_t before = wk_steps(ctx);
 *         wk_split(ctx, batch, false, &at, &count);    |      if (mine.left) my_passes(&mine);
 *         if (!wk_join(ctx, (double)count)) break;     |      wk_backward(model);
 *         my_passes(first + at, count);                |      wk_step(optimizer);
 *         wk_backward(model);                          |      if (wk_steps(ctx) > before)
 *         wk_step(optimizer);                          |          advance(&mine);
 *     }                                                |  }
 *
 * On the left all ranks share one sequence of samples, on the right each has its own. A rank with
 * nothing more goes on, adding nothing, until nobody has anything: then false, as wk_next at the
 * end, after which wk_backward and wk_step do nothing; and as wk_next it is where checkpoints, stop
 * requests and new generations happen. Where one of those began inside the call, weight and share
 * are of the world before: wk_join lets the program make a pass that comes to nothing, wk_steps
 * stays, and the next turn asks anew. So a step counts once wk_steps has risen; data of one that
 * did not is the program's to give again. Such a pass shows no parameters that are spread over the
 * ranks: they may read as zeros. A model of ours takes a batch of 0 samples where there is nothing
 * (wk_forward must be called on every rank). One tiny message per pass. WK_EINVAL for a weight that
 * is negative or not finite.
 *
 * Beside loaders: the weight counts for the passes behind this call, whether wk_next comes between
 * or not, up to the wk_next behind the first of them. A pass of ours on a loader's batch, which has
 * a divisor of its own, is never weighed; with a custom model on one, call wk_next after the passes
 * on the program's own data. */
WK_API bool wk_join(struct wk_context *ctx, double weight);

/* Another way to sum gradients under strategy ddp: something between the backward pass and the sum
 * over the ranks, such as compressing. The program's own in place of the one that setting ddp.hook
 * names; all ranks set the same. Called on the thread of the loop. */
struct wk_gradients {
    float *data; /* [count]: this rank's at start; at finish's return the sum over all ranks */
    size_t count;
    int index, total; /* which of how many of this backward pass */
    void *own;        /* the hook's, from start to finish; NULL at start */
};

struct wk_gradient_hook {
    const char *name; /* for sentences */
    /* The same order, indices and counts on every rank: collectives may be started here, as the
     * backward pass goes on. 0, or the code of a collective. */
    int (*start)(void *arg, struct wk_comm *comm, struct wk_gradients *gradients);
    /* Once for each that was started, in the same order, also after a failure: then collectives
     * fail at once, and what `own` stands for is to be freed. */
    int (*finish)(void *arg, struct wk_comm *comm, struct wk_gradients *gradients);
    void *arg;
};

/* `hook` is copied; NULL goes back to the setting's. Between steps. WK_ESTATE before wk_prepare or
 * inside a step, WK_EUNSUPPORTED under another strategy than ddp. */
WK_API int wk_set_gradient_hook(struct wk_model *model, const struct wk_gradient_hook *hook);

/* Make every parameter readable on this rank as the optimizer has it, where wk_parameter_data says,
 * until the model's next pass (wk_forward, wk_evaluate, wk_backward, wk_generate), its wk_step, or
 * the next wk_next of any loader (a custom model's in the middle of a step is readable again behind
 * that; asked before, wk_parameter_data has said where passes read it). Strategy fsdp needs it, and
 * with mixed_precision zero1 and zero2 do, whose matrices are there in the narrow type only (it
 * costs the memory that these save); elsewhere it does nothing. All ranks call it. In a pass that
 * comes to nothing (a rank was lost, or the world changed inside wk_join) it gathers nothing and
 * returns 0: ask wk_step_taken first. WK_ESTATE before wk_prepare, or a failure of the collective.
 */
WK_API int wk_gather_parameters(struct wk_model *model);

#ifdef __cplusplus
}
#endif

#endif
