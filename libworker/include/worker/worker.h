/* The training loop: one context per process (or more), prepared objects, and
 *
 *     while (wk_next(loader, &batch)) {
 *         wk_forward(model, &batch, &loss);
 *         wk_backward(model);
 *         wk_clip_grad_norm(model, 1.0f, NULL);
 *         wk_step(optimizer);
 *         wk_scheduler_step(scheduler);
 *     }
 *     return wk_close(ctx);
 *
 * runs the same alone, under torchrun, mpirun or Slurm, and under Muster, where ranks may die and
 * join while it runs: then the calls up to the next wk_next do nothing and return 0, wk_next forms
 * the new generation, brings members to the same step and deals the interrupted batch again.
 *
 * Calls return 0 or a negative enum wk_error. Errors are sticky: after the first, calls do nothing
 * and return it, wk_next returns false, wk_last_error has the sentence. So the loop needs no
 * checks. Calls on NULL, as what could not be made is, return WK_EINVAL; on objects that wk_prepare
 * was not given WK_ESTATE. That is sticky where the object knows a context: a loader the one it was
 * made in, a scheduler its optimizer's.
 *
 * A code never comes without a sentence. Calls that come to nothing without harm to the training (a
 * prompt or a metric's name that cannot be, a file that cannot be written) are not sticky; their
 * sentence is wk_last_error(ctx)'s until the next. What is called without a context leaves it to
 * wk_last_error(NULL), collectives to wk_comm_error.
 *
 * One thread per context. Two contexts are independent.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <worker/checkpoint.h>
#include <worker/comm.h>
#include <worker/config.h>
#include <worker/data.h>
#include <worker/error.h>
#include <worker/export.h>
#include <worker/layers.h>
#include <worker/nn.h>
#include <worker/optim.h>
#include <worker/owned.h>
#include <worker/parallel.h>
#include <worker/precision.h>
#include <worker/types.h>
#include <worker/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;

struct wk_options {                    /* NULL or zeroed: everything from the environment */
    const struct wk_setting *settings; /* [n_settings], the strongest source */
    int n_settings;
    const char *config_file; /* YAML; NULL takes MUSTER_CONFIG, if set */
    /* Sentences about what happened without ending the training: a checkpoint that could not be
     * written, ranks lost, a generation formed. Any thread. NULL writes each to stderr, as
     * "muster: rank 0: ..."; wk_last_notice has the last. */
    void (*notice)(void *arg, const char *text);
    void *notice_arg;
};

/* Read the settings, find this process's place, connect to the other ranks. Always gives a context
 * unless memory is out (WK_ENOMEM): after a failure it only serves wk_last_error and wk_close. */
WK_API int wk_open(const struct wk_options *options, struct wk_context **ret_ctx);

/* Save what is to be saved (under zero1, zero2 and fsdp the end of the loop has, which all ranks
 * reach together; of a loop left earlier it is saved where all left it by wk_triggered), leave the
 * others, free. Prepared objects stay the caller's and go back to being unprepared. Returns the
 * exit code for main: 0, 1 after an error, WK_EXIT_STOPPED when the job was asked to stop,
 * WK_EXIT_PEER when it ended because another rank did, WK_EXIT_CONFIG when settings, arguments,
 * the order of calls or ranks that do not fit together were refused before a step was taken, or the
 * checkpoint that resume_from names is not there: trying again cannot help, and Muster does not.
 * What the context owns (worker/owned.h) is freed. NULL gives 1. */
enum { WK_EXIT_STOPPED = 75, WK_EXIT_PEER = 76, WK_EXIT_CONFIG = 78 };
WK_API int wk_close(struct wk_context *ctx);

/* The sticky error: 0, WK_ESTOPPED after a stop request, or what went wrong; and its sentence, or
 * while there is none that of the last call that was refused ("" if none was; valid until the next
 * refusal or wk_close). wk_last_error(NULL) is why the last constructor that takes no context
 * (wk_gpt_new, wk_adamw_new, wk_custom_new, …), or call on an object that has none, refused on this
 * thread, until the next. */
WK_API int wk_status(const struct wk_context *ctx);
WK_API const char *wk_last_error(const struct wk_context *ctx);

/* The sentence of the last notice, "" if none. */
WK_API const char *wk_last_notice(struct wk_context *ctx);

/* This rank's place now; may change at every wk_next. */
WK_API int wk_rank(const struct wk_context *ctx);
WK_API int wk_world(const struct wk_context *ctx);
WK_API int wk_local_rank(const struct wk_context *ctx);
WK_API bool wk_is_main(const struct wk_context *ctx); /* rank 0 */
WK_API bool wk_is_local_main(const struct wk_context *ctx);
WK_API bool wk_is_last(const struct wk_context *ctx);
WK_API uint64_t wk_generation(const struct wk_context *ctx);

/* What wk_prepare takes; made by the macros below. */
enum wk_object_kind { WK_OBJECT_MODEL, WK_OBJECT_OPTIMIZER, WK_OBJECT_LOADER, WK_OBJECT_SCHEDULER };

struct wk_object {
    enum wk_object_kind kind;
    void *object;
};

static inline struct wk_object wk_object_model(struct wk_model *model)
{
    struct wk_object object = {WK_OBJECT_MODEL, model};
    return object;
}

static inline struct wk_object wk_object_optimizer(struct wk_optimizer *optimizer)
{
    struct wk_object object = {WK_OBJECT_OPTIMIZER, optimizer};
    return object;
}

static inline struct wk_object wk_object_loader(struct wk_loader *loader)
{
    struct wk_object object = {WK_OBJECT_LOADER, loader};
    return object;
}

static inline struct wk_object wk_object_scheduler(struct wk_scheduler *scheduler)
{
    struct wk_object object = {WK_OBJECT_SCHEDULER, scheduler};
    return object;
}

/* A model, an optimizer, a loader or a scheduler as wk_prepare takes it. C needs C11 for it; older
 * C calls the functions above. */
#ifdef __cplusplus
extern "C++" {
inline wk_object wk_object_of(wk_model *model)
{
    return wk_object_model(model);
}
inline wk_object wk_object_of(wk_optimizer *optimizer)
{
    return wk_object_optimizer(optimizer);
}
inline wk_object wk_object_of(wk_loader *loader)
{
    return wk_object_loader(loader);
}
inline wk_object wk_object_of(wk_scheduler *scheduler)
{
    return wk_object_scheduler(scheduler);
}
}
#define WK_OBJECT(x) wk_object_of(x)
#else
#define WK_OBJECT(x)                                                                               \
    _Generic((x), struct wk_model *                                                                \
             : wk_object_model, struct wk_optimizer *                                              \
             : wk_object_optimizer, struct wk_loader *                                             \
             : wk_object_loader, struct wk_scheduler *                                             \
             : wk_object_scheduler)(x)
#endif

/* Make objects ready for training here: any order; up to 16 models, each with one optimizer over
 * it or none, and as many loaders and schedulers. Gives models their memory, optimizers their
 * state, every rank the same start (a checkpoint's, or rank 0's). With several models each
 * optimizer has said which it is over (wk_optimizer_over): the order of arguments is no sign of it.
 * One that has none is only read, as a teacher is, under strategy ddp. Preparing the same objects
 * again changes nothing. With n_objects 0 it prepares what the context owns (worker/owned.h), which
 * the first wk_next of a loader that the context owns, or wk_join, does where nothing is prepared.
 *
 * A step: it begins with a batch and is over when every optimizer has stepped in it, or when the
 * next batch is asked for of a loader that has given its own in it, all gradients taken: asking
 * with a full window that was not stepped is WK_ESTATE. With one optimizer that is its wk_step; two
 * of a GAN make one step together; one that rests in most steps is not waited for. When a step
 * breaks, it begins again with its batch: an optimizer that had stepped already, then keeps its
 * parameters as they are the first time (its figures are those of the repeated pass), so the
 * outcome is that of the undisturbed run. That, and resuming, need what a program does in a step to
 * follow from its batch, wk_steps and wk_random, not from counters of its own. An optimizer that
 * steps more than once in a step does so before the last of the others does: what comes behind is a
 * step of its own, without a batch to begin again with.
 *
 * WK_EINVAL, WK_EUNSUPPORTED (a setting this build cannot do, with the reason), WK_EMISMATCH (ranks
 * prepared different models, or differ in a setting, optimizer, schedule or loader that shapes the
 * training: on all ranks, naming the first and both values; also when a member joins later),
 * WK_ENOMEM, WK_EIO (no checkpoint could be loaded, or none can be written to checkpoint.dir). A
 * new run in a folder that holds another's checkpoints is WK_EINVAL. */
WK_API int wk_prepare(struct wk_context *ctx, const struct wk_object *objects, int n_objects);

/* wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer), …) */
#ifdef __cplusplus
extern "C++" {
template <typename... Objects> inline int wk_prepare_all(wk_context *ctx, const Objects &...objects)
{
    const wk_object list[] = {objects...};
    return wk_prepare(ctx, list, static_cast<int>(sizeof...(objects)));
}
}
#else
#define wk_prepare_all(ctx, ...)                                                                   \
    wk_prepare((ctx), (const struct wk_object[]){__VA_ARGS__},                                     \
               (int)(sizeof((const struct wk_object[]){__VA_ARGS__}) / sizeof(struct wk_object)))
#endif

/* This rank's share of the next global batch. false at the end (of the epochs, of total_steps),
 * when asked to stop, after an error and for NULL. A loader that wk_prepare was not given, nor
 * prepared so, is WK_ESTATE, the error of the context that it was made in; where that is none or
 * closed, wk_last_error(NULL) has the sentence. Of a training loader it is where everything that
 * happens between steps happens: checkpoints, stop requests, new generations. Of an evaluation
 * loader all ranks call it alike, and under zero1, zero2 and fsdp in step with each other: a stop
 * or a new generation ends it for all before the same batch. Of several training loaders the one
 * asked first begins the step, the others take part in it; a loop asks them in the same order in
 * every step. In a broken generation all but that one give a batch that comes to nothing, so that
 * the step begins again where it did. */
WK_API bool wk_next(struct wk_loader *loader, struct wk_batch *ret_batch);

/* Halve the loader's batch until every rank's memory holds its share of it. All ranks call it
 * between steps, usually behind wk_prepare; *ret_batch (or NULL) is the global batch then. For our
 * models a try takes the memory of a whole training pass at the model's context, touches it and
 * gives it back unless it is the one that fits; a program with passes of its own gives `attempt`,
 * which makes one pass over `samples` and returns WK_ENOMEM where memory is refused. It may call no
 * collective. A limit of the process or of its control groups is heeded (while it searches, the
 * process' RLIMIT_DATA is what they have left); memory that a machine without one promises and
 * later kills for is not seen. A smaller world has larger shares: search again behind a change.
 * WK_ENOMEM (the context's error) when one sample for each rank is too much, WK_ESTATE inside a
 * step; in a broken generation nothing happens. */
struct wk_batch_search {
    int (*attempt)(void *arg, int64_t samples);
    void *arg;
};
WK_API int wk_find_batch(struct wk_loader *loader, const struct wk_batch_search *search,
                         int64_t *ret_batch);

/* Loss of this rank's share over the global batch's denominator: the ranks' losses add up to the
 * global mean. `ret_loss` may be NULL. */
WK_API int wk_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss);

/* The model as it is used instead of trained: the loss as wk_forward gives it, but nothing is
 * dropped and no target smoothed, and of each position what `outputs` asks for: see
 * wk_gather_for_metrics for those of all ranks. A forward pass whose backward pass is still to come
 * is lost, so evaluate between steps. Under fsdp all ranks call it, as wk_forward, also with a
 * share of no samples. `ret_loss` and `outputs` may be NULL; a batch without targets has the loss
 * 0. What cannot be given, as in a broken generation, is zeros. WK_EUNSUPPORTED for a custom model,
 * whose passes are the program's own (wk_forward and wk_generate too); WK_EINVAL as wk_forward, and
 * for losses without targets. */
WK_API int wk_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                       const struct wk_outputs *outputs);

/* Gradients of the last forward pass. In the last of an accumulation window their sum over the
 * ranks starts while the pass still runs. Each model fills windows of its own, all of as many
 * passes. WK_ESTATE without a forward pass, once a window is full until wk_step, and for a model
 * prepared without an optimizer, whose gradients nothing would take. */
WK_API int wk_backward(struct wk_model *model);

/* Limit the norm of the whole gradient; max_norm 0 only measures it, below 0 is WK_EINVAL. Between
 * accumulation boundaries does nothing and gives 0. `ret_norm` (before clipping) may be NULL. */
WK_API int wk_clip_grad_norm(struct wk_model *model, float max_norm, float *ret_norm);

/* Limit each element of the gradient to [-max_value, max_value], at the end of an accumulation
 * window; else nothing. Before wk_clip_grad_norm, which then sees the limited gradient. */
WK_API int wk_clip_grad_value(struct wk_model *model, float max_value);

/* Update the parameters, at the end of an accumulation window; else nothing. A loss or gradient
 * that is not finite is WK_EOVERFLOW with a sentence that names the parameter, and the
 * parameters stay as they were; but with mixed_precision fp16 that step is skipped on all ranks,
 * the loss scale lowered, and WK_EOVERFLOW comes only when no scale is low enough. Each model has a
 * scale of its own: an overflow skips the step of its model alone. WK_ESTATE without a backward
 * pass since the last step. */
WK_API int wk_step(struct wk_optimizer *optimizer);

/* Whether the last wk_step of this optimizer updated the parameters: not inside an accumulation
 * window, nor when fp16 skipped it. What is to be done once per step (logging, evaluating) asks
 * this; the answer is the same on all ranks. In a step that begins again after a loss the
 * parameters may have taken it before, which counts. */
WK_API bool wk_step_taken(const struct wk_optimizer *optimizer);

/* With mixed_precision fp16: whether the last wk_step at a window's end skipped its update, how
 * many did so far, and the loss scale (the lowest of several models), which starts at 65536,
 * doubles after 2000 steps without overflow and halves with each (settings loss_scale.*). Losses
 * are never shown scaled; gradients are, until wk_step. Else false, 0 and 1. */
WK_API bool wk_step_skipped(const struct wk_context *ctx);
WK_API int64_t wk_skipped_steps(const struct wk_context *ctx);
WK_API double wk_loss_scale(const struct wk_context *ctx);

/* Once per optimizer step taken: nothing when the last wk_step took none. */
WK_API int wk_scheduler_step(struct wk_scheduler *scheduler);

WK_API int64_t wk_steps(const struct wk_context *ctx);       /* completed, of all time */
WK_API int64_t wk_total_steps(const struct wk_context *ctx); /* 0 = unknown */

/* The global loss of the last completed step: the mean over its global batches. NaN before one, and
 * where a program's own passes set none (wk_set_loss). Of several models the first's that has an
 * optimizer. */
WK_API double wk_loss(const struct wk_context *ctx);

/* The same of one of several models: of the last step that its optimizer took. NaN likewise, and
 * for a model that was not prepared. */
WK_API double wk_model_loss(const struct wk_model *model);

/* For custom models: this rank's part of the loss of the pass whose wk_backward comes next, divided
 * by the batch's denominator. Before wk_grad_ready or after it. A window in which no rank called it
 * has no loss: it is left out of logs and charts, and the first time a notice says so. WK_ESTATE
 * after the last wk_backward of a window, until wk_step: that loss is on its way. */
WK_API int wk_set_loss(struct wk_model *model, double loss);

/* wk_set_loss, wk_backward and wk_step in one, for passes of the program's own that are complete
 * and announced no gradient (wk_grad_ready); `optimizer` is the one over their model. Clipping is
 * that of the settings. WK_EINVAL for a model of ours. */
WK_API int wk_update(struct wk_optimizer *optimizer, double loss);

/* A figure of the step completed last, for the coordinator's charts and log_file. Rank 0's counts;
 * other ranks' calls do nothing, so no `if` is needed. Names: [a-z0-9_./-], at most 63; another is
 * WK_EINVAL and left out, the first time with a notice, and training goes on. `loss` of
 * every step is logged without being asked, and with each progress line tokens_per_second,
 * learning_rate and grad_norm; of a second model as loss/2, learning_rate/2 and grad_norm/2. */
WK_API int wk_log(struct wk_context *ctx, const char *name, double value);

/* Sum of `value` over the ranks, for metrics and evaluation. All ranks call it. When the generation
 * ends meanwhile, or an evaluation was cut short by a stop or a new one (zero1, zero2, fsdp),
 * *value stays what it was, and the next wk_next sees to the rest. */
WK_API int wk_reduce_value(struct wk_context *ctx, double *value, enum wk_op op);

/* The mean over a global batch of what `mean` is over this rank's share of it, which counts by its
 * samples; a share of none counts nothing, whatever `mean` is. All ranks call it. Where
 * wk_reduce_value does nothing it gives `mean`. */
WK_API double wk_batch_mean(struct wk_context *ctx, const struct wk_batch *batch, double mean);

/* Things the ranks do together. All of them call; in a broken generation nothing happens. */

/* Wait for everybody. */
WK_API int wk_wait_for_all(struct wk_context *ctx);

/* Rank 0 (with `local` the first of each machine) runs what stands between the two before the
 * others do, such as filling a cache they then read. */
WK_API int wk_main_first_begin(struct wk_context *ctx, bool local);
WK_API int wk_main_first_end(struct wk_context *ctx, bool local);

/* The part of 0 … total-1 that is this rank's: contiguous, sizes differ by one at most with the
 * larger ones first (17 over 4: 5, 4, 4, 4). With `pad` every rank gets as many as the largest, the
 * missing ones to be filled with the last item: then *ret_count may reach beyond total. Local. */
WK_API void wk_split(const struct wk_context *ctx, int64_t total, bool pad, int64_t *ret_first,
                     int64_t *ret_count);

/* Early stopping and the like: any rank pulls, all learn of it at the next check, which resets it.
 * All ranks check. Who leaves the loop does so with all others, before the next wk_next: wk_close
 * saves then. */
WK_API void wk_trigger(struct wk_context *ctx);
WK_API bool wk_triggered(struct wk_context *ctx);

/* fprintf on rank 0, nothing elsewhere. Where `fmt` ends a line `out` is flushed, so a pipe shows
 * it at once and a process that is killed loses no line. Local. Not for errors. */
WK_API void wk_print(struct wk_context *ctx, FILE *out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What wk_last_error says, with the rank whose it is; nothing where all is well. For stderr: each
 * rank has an error of its own, and `muster why` tells what a rank wrote last. Local. */
WK_API void wk_print_error(const struct wk_context *ctx, FILE *out);

/* The communicator of the present generation, for collectives of the program's own; valid until the
 * next wk_next. NULL while there is none. */
WK_API struct wk_comm *wk_communicator(struct wk_context *ctx);

/* Uniform in [0, 1): the same sequence on every rank, part of every checkpoint. */
WK_API double wk_random(struct wk_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
