/* Models with the program's own forward and backward passes, and control over when gradients are
 * summed.
 *
 * A custom model is a list of named buffers. wk_prepare places them in the arenas. The program
 * reads and writes parameters through wk_parameter_data and adds gradients to wk_parameter_grad.
 * The gradients are those of the loss summed over this rank's share, divided by the batch's
 * denominator; with wk_mean_of_share, those of the mean over its share.
 *
 * The loop is wk_next, a forward pass, a backward pass, wk_backward, wk_step. The backward pass
 * calls wk_grad_ready as gradients become final. wk_backward scales by the accumulation window, so
 * the program adds unscaled gradients.
 *
 * Details: mixed_precision bf16 or fp16
 * - The optimizer keeps its parameters in float, and passes see them rounded, as in our own models.
 *   This applies to matrices, and to vectors with `narrow`.
 * - A program with kernels for narrow numbers declares that per buffer (wk_buffer.narrow) and
 *   reads bits. Any other program reads floats with the rounded values and needs no change.
 * - In fp16 a program that reads bits multiplies its loss by wk_backward_scale before the backward
 *   pass.
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

/* How passes use a buffer in the type of mixed_precision; or-ed. */
enum {
    WK_TAKES_BF16 = 1,  /* bf16: they read its bits and write its gradient in bf16 */
    WK_TAKES_F16 = 2,   /* fp16: the same in f16, with the loss multiplied by wk_backward_scale */
    WK_GIVES_FLOAT = 4, /* but write the gradient in float */
};

struct wk_buffer {
    const char *name; /* unique, below 96 bytes */
    int dims;         /* 1 … WK_BUFFER_DIMS_MAX */
    int64_t shape[WK_BUFFER_DIMS_MAX];
    /* [product of shape], copied at wk_prepare and not needed later; NULL: zeros */
    const float *initial;
    bool decay;      /* weight decay applies although it has one dimension; always with more */
    unsigned narrow; /* 0: passes read and write floats under every mixed_precision */
    bool no_decay;   /* no weight decay although it has two dimensions or more; not with `decay` */
    int block;       /* wk_enter_block; that of the buffer before or one more, from 0 on */
};

/* WK_EINVAL (wk_last_error(NULL) has the reason), WK_ENOMEM. `buffers` are read only during the
 * call, except `initial`. */
WK_API int wk_custom_new(const struct wk_buffer *buffers, int n_buffers,
                         struct wk_model **ret_model);

/* Address of parameter `index` or of its gradient, for the passes of one step: valid until wk_step,
 * wk_gather_parameters, wk_next or wk_join. A gang of another size may cut the model again and move
 * it, so ask in each pass. wk_gather_parameters explains what is readable when. NULL before
 * wk_prepare, out of range, outside of the block that passes are in (wk_enter_block) and for NULL,
 * so an object that could not be made needs no check. On a GPU the addresses of a custom model are
 * memory of the GPU (worker/device.h), and those of other models NULL. */
WK_API float *wk_parameter_data(struct wk_model *model, int index);
WK_API float *wk_parameter_grad(struct wk_model *model, int index);

/* The same for all parameters in one call. data[i] and grads[i] are set to the addresses of
 * parameter i and its gradient, now and whenever they change. They change in wk_prepare, wk_next,
 * wk_join, wk_update, wk_step and wk_gather_parameters.
 *
 * Each array has wk_model_parameters(model) pointers, belongs to the program and must exist until
 * wk_close. NULL skips that array; both NULL end the binding. WK_EINVAL if the model is NULL.
 */
WK_API int wk_bind_parameters(struct wk_model *model, float **data, float **grads);

/* Passes by block. Where buffers are of several blocks, strategy fsdp has only the parameters of a
 * few blocks in memory at a time, as with a model of ours. The passes then enter each block before
 * they use it, which leaves the one before:
 *
 *       for (int i = 0; i < blocks; i++) {         forward, as often as there are forward passes
 *           wk_enter_block(model, WK_FORWARD, i);
 *           x = block_forward(i, x);
 *       }
 *       for (int i = blocks - 1; i >= 0; i--) {
 *           wk_enter_block(model, WK_BACKWARD, i);
 *           dx = block_backward(i, dx);
 *       }
 *       wk_backward(model);
 *
 * In a block its own parameters are readable and those of block 0, which an embedding tied to a
 * head needs; backward, their gradients are added to. The addresses of all others are NULL under
 * every strategy, so that a mistake shows in one process. Leaving a block backward announces its
 * gradients, and wk_grad_ready has no effect.
 *
 * All ranks enter all blocks in this order, also for a share of no samples. In a training pass
 * without data a rank may enter none and call wk_backward alone. In a generation that is over the
 * calls have no effect but for the addresses, and parameters may be read as zeros.
 *
 * WK_EINVAL for a model without blocks or one of ours, WK_ESTATE before wk_prepare. Another order
 * is WK_ESTATE and ends the training. Else the failure of the collective. */
enum wk_pass { WK_FORWARD, WK_BACKWARD };
WK_API int wk_enter_block(struct wk_model *model, enum wk_pass pass, int block);

/* Declare that this model's passes return loss and gradients as means over this rank's share, as
 * llm.c's and torch's losses are. libworker then weights each pass by the share of the batch that
 * wk_next dealt last: samples * length / denominator. After wk_join the weight is the number of
 * samples passed to it. In any world the step is the same mean over all samples as without this
 * option.
 *
 * A share without samples has weight zero: its loss may be NaN and its pass adds no gradient. All
 * ranks must agree (else WK_EMISMATCH). WK_EINVAL for a model of ours, WK_ESTATE after wk_prepare.
 */
WK_API int wk_mean_of_share(struct wk_model *model, bool on);

/* The type in which passes read parameter `index`: WK_F32 through wk_parameter_data, WK_BF16 or
 * WK_F16 through wk_parameter_low. wk_parameter_low is NULL for WK_F32. It has the rounded numbers
 * from wk_next to wk_step and must not be written. WK_F32 before wk_prepare, out of range and for
 * NULL. */
WK_API enum wk_dtype wk_parameter_type(const struct wk_model *model, int index);
WK_API const uint16_t *wk_parameter_low(struct wk_model *model, int index);

/* Where its gradient is written in that type; NULL: in float (wk_parameter_grad). It is zero when a
 * pass begins. wk_grad_ready, or else wk_backward, adds its content to the float gradient. */
WK_API uint16_t *wk_parameter_low_grad(struct wk_model *model, int index);

/* Factor for the loss before the program's own backward pass, so that no gradient is too small for
 * f16. It is the loss scale if mixed_precision is fp16 and a buffer of the model is in f16, else 1.
 * All gradients of the model are scaled by it, also those in float. wk_set_loss gets the unscaled
 * loss. It changes only in wk_step, so ask in each pass. 1 for an unprepared model. */
WK_API double wk_backward_scale(const struct wk_model *model);

/* Parameter `index` gets no more gradient in this backward pass: its sum over the ranks may start.
 * A pass announces all parameters or none; none costs only the overlap. WK_EINVAL for an index out
 * of range, WK_ESTATE before wk_prepare.
 *
 * Details
 * - With setting ddp.find_unused a pass may omit parameters; their gradient is then that of the
 *   other ranks. Without it wk_step fails on every rank and names them.
 * - With ddp.static_graph a parameter is announced as often as in the first pass, and is final the
 *   last time.
 */
WK_API int wk_grad_ready(struct wk_model *model, int index);

/* While on, backward passes only add to this rank's gradients. The first wk_backward after it is
 * off again sums over the ranks. All ranks switch together. */
WK_API int wk_no_sync(struct wk_model *model, bool on);

/* Replaces wk_next for programs with their own data, of which ranks may have different amounts.
 * `weight` is this rank's weight in the coming pass, 0 for no data. Returns false when no rank has
 * data, or as wk_next does at the end. wk_backward and wk_step then do nothing. Checkpoints, stop
 * requests and new generations happen here, as in wk_next.
 *
 * The step uses the sum of the ranks' gradients (and losses), divided by the sum of their weights.
 * With weight 1 and gradients of the mean over its samples, it is the mean over the ranks that take
 * part. With the number of samples as weight and gradients of the sum over them, it is the mean
 * over all samples.
 *
 *       for (;;) {                                       |  while (wk_join(ctx, mine.left)) {
 *           first = wk_steps(ctx) * batch;               |      int64_t before = wk_steps(ctx);
 *           wk_split(ctx, batch, false, &at, &count);    |      if (mine.left) my_passes(&mine);
 *           if (!wk_join(ctx, (double)count)) break;     |      wk_backward(model);
 *           my_passes(first + at, count);                |      wk_step(optimizer);
 *           wk_backward(model);                          |      if (wk_steps(ctx) > before)
 *           wk_step(optimizer);                          |          advance(&mine);
 *       }                                                |  }
 *
 * On the left all ranks share one sequence of samples, on the right each has its own. A rank
 * without data continues with weight 0 until no rank has any. WK_EINVAL for a weight that is
 * negative or not finite.
 *
 * Details
 * - If a new generation began inside the call, weight and share are those of the old world. wk_join
 *   then lets the program make a pass without effect, wk_steps does not rise, and the program must
 *   ask again. A step therefore counts only when wk_steps has risen; otherwise the program uses the
 *   same data again.
 * - Such a pass may read parameters that are spread over the ranks as zeros.
 * - A model of ours gets a batch of 0 samples where there is no data, because every rank must call
 *   wk_forward.
 * - It costs one small message per pass.
 * - With loaders: the weight applies to the passes after this call, until the first wk_next that
 *   follows one of them. It never applies to a pass of ours on a loader's batch, which has its own
 *   divisor. With a custom model on such a batch, call wk_next after the passes on the program's
 *   own data.
 */
WK_API bool wk_join(struct wk_context *ctx, double weight);

/* A custom way to sum gradients under strategy ddp, for example with compression. It replaces the
 * one that setting ddp.hook names. All ranks set the same. Called on the thread of the loop. */
struct wk_gradients {
    float *data; /* [count]: this rank's at start; the sum over all ranks when finish returns */
    size_t count;
    int index, total; /* which of how many in this backward pass */
    void *own;        /* the hook's, from start to finish; NULL at start */
};

struct wk_gradient_hook {
    const char *name; /* for messages */
    /* Start the sum. Every rank calls in the same order with the same indices and counts, so it may
     * start collectives while the backward pass continues. 0, or the code of a collective. */
    int (*start)(void *arg, struct wk_comm *comm, struct wk_gradients *gradients);
    /* Finish the sum. Called once for each start, in the same order, also after a failure:
     * collectives then fail at once, and `own` must be freed. */
    int (*finish)(void *arg, struct wk_comm *comm, struct wk_gradients *gradients);
    void *arg;
};

/* `hook` is copied; NULL returns to the setting's. Call it between steps. WK_ESTATE before
 * wk_prepare or inside a step, WK_EUNSUPPORTED under another strategy than ddp. */
WK_API int wk_set_gradient_hook(struct wk_model *model, const struct wk_gradient_hook *hook);

/* Make every parameter readable on this rank, with the optimizer's values, at the address that
 * wk_parameter_data returns. It stays readable until the model's next pass (wk_forward,
 * wk_evaluate, wk_backward, wk_generate), its wk_step, or the next wk_next of any loader. All ranks
 * call it. WK_ESTATE before wk_prepare, or the failure of the collective.
 *
 * Details
 * - Strategy fsdp needs it. With mixed_precision zero1 and zero2 need it too, because their
 *   matrices exist only in the narrow type; it costs the memory that these save. In other cases it
 *   does nothing.
 * - A pass without effect (a rank was lost, or the world changed inside wk_join) gathers nothing
 *   and returns 0: ask wk_step_taken first.
 * - For a custom model in the middle of a step: ask wk_parameter_data again afterwards, because
 *   earlier it returned where passes read. Passes by block begin again after it.
 */
WK_API int wk_gather_parameters(struct wk_model *model);

#ifdef __cplusplus
}
#endif

#endif
