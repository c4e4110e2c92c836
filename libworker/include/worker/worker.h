/* The training loop. A process opens one context (or more), prepares its objects, and runs
 *
 *       while (wk_next(loader, &batch)) {
 *           wk_forward(model, &batch, NULL);
 *           wk_backward(model);
 *           wk_clip_grad_norm(model, 1.0f, NULL);
 *           wk_step(optimizer);
 *           wk_scheduler_step(scheduler);
 *       }
 *       return wk_close(ctx);
 *
 * The same loop runs alone, under torchrun, mpirun or Slurm, and under Muster. Calls return 0 or a
 * negative enum wk_error. One thread per context. Two contexts are independent.
 *
 * Errors are sticky, so the loop needs no checks. After the first error calls do nothing and return
 * it, wk_next returns false, and wk_last_error has the sentence.
 *
 * Under Muster ranks may die and join during the loop. The calls up to the next wk_next then do
 * nothing and return 0. wk_next forms the new generation, brings all members to the same step and
 * deals the interrupted batch again.
 *
 * Details
 * - Every error code has a sentence. A call without a context leaves it to wk_last_error(NULL), a
 *   collective to wk_comm_error.
 * - Some failures do not harm the training: an invalid prompt or metric name, a file that cannot be
 *   written. They are not sticky. wk_last_error(ctx) has their sentence until the next failure.
 * - A call on NULL (an object that could not be made) returns WK_EINVAL. A call on an object that
 *   was not passed to wk_prepare returns WK_ESTATE. Both are sticky where the object knows a
 *   context: a loader knows the one it was made in, a scheduler its optimizer's.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <worker/checkpoint.h>
#include <worker/comm.h>
#include <worker/config.h>
#include <worker/custom_op.h>
#include <worker/data.h>
#include <worker/device.h>
#include <worker/error.h>
#include <worker/export.h>
#include <worker/graph.h>
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

struct wk_options {                    /* NULL or zeroed: all settings from the environment */
    const struct wk_setting *settings; /* [n_settings], the strongest source */
    int n_settings;
    const char *config_file; /* YAML; NULL reads the file that MUSTER_CONFIG names */
    /* Receives sentences about events that did not end the training: a checkpoint that could not be
     * written, ranks lost, a generation formed. Called from any thread. NULL writes each to stderr,
     * as "muster: rank 0: ..."; wk_last_notice has the last. */
    void (*notice)(void *arg, const char *text);
    void *notice_arg;
};

/* Read the settings, find this process's place, connect to the other ranks. *ret_ctx is set on
 * every result except WK_ENOMEM. After a failure the context only serves wk_last_error and
 * wk_close. */
WK_API int wk_open(const struct wk_options *options, struct wk_context **ret_ctx);

/* Save the last state, leave the other ranks and free the context. Returns the exit code for main.
 * NULL returns 1.
 *
 *   0                success
 *   1                after an error
 *   WK_EXIT_STOPPED  the job was asked to stop
 *   WK_EXIT_PEER     the job ended because another rank did
 *   WK_EXIT_CONFIG   refused before the first step: settings, arguments, the order of calls, ranks
 *                    that do not match, or resume_from names a checkpoint that does not exist.
 *                    Trying again cannot help, and Muster does not
 *
 * Details
 * - Objects that the context owns (worker/owned.h) are freed. Prepared objects stay the caller's
 *   and are unprepared again.
 * - Under zero1, zero2 and fsdp saving is collective. The state at the end of the loop is saved,
 *   because all ranks reach it together. A loop left earlier is saved only if all ranks left it by
 *   wk_triggered.
 */
enum { WK_EXIT_STOPPED = 75, WK_EXIT_PEER = 76, WK_EXIT_CONFIG = 78 };
WK_API int wk_close(struct wk_context *ctx);

/* wk_status: the sticky error, WK_ESTOPPED after a stop request, or 0. wk_last_error: its sentence,
 * or without a sticky error that of the last refused call, or "". The text is valid until the next
 * refusal or wk_close.
 *
 * wk_last_error(NULL) is about the last refused call of this thread that had no context: a
 * constructor (wk_gpt_new, wk_adamw_new, wk_custom_new, …), or a call on an object without a
 * context.
 */
WK_API int wk_status(const struct wk_context *ctx);
WK_API const char *wk_last_error(const struct wk_context *ctx);

/* The sentence of the last notice, or "". */
WK_API const char *wk_last_notice(struct wk_context *ctx);

/* This rank's place now. It may change at every wk_next. */
WK_API int wk_rank(const struct wk_context *ctx);
WK_API int wk_world(const struct wk_context *ctx);
WK_API int wk_local_rank(const struct wk_context *ctx);
WK_API bool wk_is_main(const struct wk_context *ctx); /* rank 0 */
WK_API bool wk_is_local_main(const struct wk_context *ctx);
WK_API bool wk_is_last(const struct wk_context *ctx);
WK_API uint64_t wk_generation(const struct wk_context *ctx);

/* The objects that wk_prepare accepts; made by the macros below. */
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

/* A model, an optimizer, a loader or a scheduler in the form for wk_prepare. In C it needs C11;
 * older C calls the functions above. */
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

/* Make objects ready for training. Models get their memory, optimizers their state, and every rank
 * the same start (a checkpoint's, or rank 0's). The objects may be in any order: up to 16 models,
 * each with one optimizer or none, and as many loaders and schedulers. Preparing the same objects
 * again changes nothing. With n_objects 0 it prepares the objects that the context owns
 * (worker/owned.h). If nothing is prepared, the first wk_next of a loader that the context owns
 * does that, and so does wk_join.
 *
 *   WK_EINVAL        also a new run in a folder with checkpoints of another run
 *   WK_EUNSUPPORTED  a setting that this build cannot do, with the reason
 *   WK_EMISMATCH     ranks prepared different models, or differ in a setting, optimizer, schedule
 *                    or loader that shapes the training. All ranks get it, with the first
 *                    difference and both values; also when a member joins later
 *   WK_ENOMEM
 *   WK_EIO           no checkpoint could be loaded, or checkpoint.dir cannot be written
 *
 * Details: several models
 * - Each optimizer must name its model (wk_optimizer_over). The order of arguments does not.
 * - A model without an optimizer is only read, like a teacher, under strategy ddp.
 *
 * Details: steps
 * - A step begins with a batch. It is over when every optimizer has stepped in it, or when a loader
 *   that dealt its batch in this step is asked for the next one. With one optimizer that is its
 *   wk_step. Two optimizers of a GAN make one step together. An optimizer that rests in most steps
 *   is not waited for.
 * - Asking for a batch while a full window has not been stepped is WK_ESTATE.
 * - A step that breaks begins again with its batch. An optimizer that had already stepped in it
 *   does not update again in the repeat; its reported values are those of the repeated pass. The
 *   outcome is therefore that of the undisturbed run.
 * - For this, and for resuming, a step may depend only on its batch, wk_steps and wk_random, not on
 *   counters of the program.
 * - An optimizer that steps more than once in a step must do so before the last of the others.
 *   Steps after that are steps of their own, without a batch to begin again with.
 */
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

/* Deal this rank's share of the next global batch. Returns false at the end (of the epochs or of
 * total_steps), after a stop request, after an error and for NULL.
 *
 * For a training loader everything that happens between steps happens here: checkpoints, stop
 * requests, new generations.
 *
 * Details
 * - A loader that was not prepared, not even by this call, is WK_ESTATE, an error of the context it
 *   was made in. If there is none or it is closed, wk_last_error(NULL) has the sentence.
 * - All ranks call it alike for an evaluation loader, under zero1, zero2 and fsdp in step with each
 *   other. A stop or a new generation ends the evaluation on all ranks before the same batch.
 * - With several training loaders, the first one asked begins the step and the others take part.
 *   The loop must ask them in the same order in every step.
 * - In a broken generation the batches of all loaders except the first have no effect, so that the
 *   step begins again where it did.
 */
WK_API bool wk_next(struct wk_loader *loader, struct wk_batch *ret_batch);

/* Halve the loader's batch until every rank's memory is enough for its share. All ranks call it
 * between steps, usually after wk_prepare. `search` is NULL for models of ours. *ret_batch (may be
 * NULL) is the resulting global batch. WK_ENOMEM (the context's error) if one sample per rank is
 * too much, WK_ESTATE inside a step. In a broken generation nothing happens.
 *
 * Details
 * - For our models a try allocates and touches the memory of a whole training pass at the model's
 *   context. It frees the memory unless the try is the one that fits.
 * - A program with its own passes supplies `attempt`. It makes one pass over `samples` and returns
 *   WK_ENOMEM where memory is refused. It may call no collective.
 * - Limits of the process and of its control groups are respected. During the search the process's
 *   RLIMIT_DATA is what they have left. Without a limit, memory that the machine promises and later
 *   kills for is not detected.
 * - A smaller world has larger shares: search again after a change.
 */
struct wk_batch_search {
    int (*attempt)(void *arg, int64_t samples);
    void *arg;
};
WK_API int wk_find_batch(struct wk_loader *loader, const struct wk_batch_search *search,
                         int64_t *ret_batch);

/* Loss of this rank's share over the global batch's denominator: in an accumulation window over the
 * mean denominator of its batches. The ranks' losses add up to the global mean. `ret_loss` may be
 * NULL: then nothing waits for the loss, and wk_step_numbers has the global one. */
WK_API int wk_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss);

/* Count what the losses are divided by (worker/graph.h), over these batches of all ranks. They are
 * those of the next `n` passes: all batches of the window. For batches that no loader dealt, and
 * for a loader's with targets or weights that the program changed. wk_next counts all others.
 *
 * All ranks call it with the same n, also one with batches without samples, before the window's
 * first wk_forward. The batches may be copies; their `denominator` is not used. One message of 8
 * bytes for each loss. In such a window the weight of wk_join does not count.
 *
 * WK_EINVAL for a batch that wk_forward would refuse, no batch, and a custom model. WK_ESTATE
 * inside a window.
 */
WK_API int wk_count_batches(struct wk_model *model, const struct wk_batch *batches, int n);

/* Evaluate the model as it is used: the loss as wk_forward defines it, without dropout and label
 * smoothing, and the per-position values that `outputs` asks for. wk_gather_for_metrics collects
 * those of all ranks. `ret_loss` and `outputs` may be NULL. A batch without targets has loss 0.
 *
 * Call it between steps: it discards a forward pass that still waits for its backward pass. Under
 * fsdp all ranks call it, like wk_forward, even with a share of no samples.
 *
 * Values that are unavailable, as in a broken generation, are zeros. WK_EUNSUPPORTED for a custom
 * model: its passes are the program's own (wk_forward and wk_generate too). WK_EINVAL as for
 * wk_forward, and for losses without targets.
 */
WK_API int wk_evaluate(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                       const struct wk_outputs *outputs);

/* Gradients of the last forward pass. In the last pass of an accumulation window their sum over the
 * ranks starts while the pass still runs. Each model fills its own windows; all windows have the
 * same number of passes.
 *
 * WK_ESTATE without a forward pass, between a full window and wk_step, and for a model that was
 * prepared without an optimizer.
 */
WK_API int wk_backward(struct wk_model *model);

/* Limit the norm of the whole gradient. max_norm 0 only measures, below 0 is WK_EINVAL. `ret_norm`
 * (before clipping) may be NULL: then nothing waits for it, and wk_step_numbers has it. Inside an
 * accumulation window it does nothing and returns norm 0. */
WK_API int wk_clip_grad_norm(struct wk_model *model, float max_norm, float *ret_norm);

/* Limit each element of the gradient to [-max_value, max_value] at the end of an accumulation
 * window; inside one it does nothing. Call it before wk_clip_grad_norm, which then sees the limited
 * gradient. */
WK_API int wk_clip_grad_value(struct wk_model *model, float max_value);

/* Update the parameters at the end of an accumulation window; inside one it does nothing. A step
 * waits for what its passes computed here only, if the program asks for no loss or norm before.
 *
 * A non-finite loss or gradient is WK_EOVERFLOW. The sentence names the parameter, and the
 * parameters stay unchanged. WK_ESTATE without a backward pass since the last step.
 *
 * Details: mixed_precision fp16
 * - An overflow skips the step on all ranks and lowers the loss scale. WK_EOVERFLOW is returned
 *   only when no scale is low enough.
 * - Each model has its own scale, so an overflow skips the step of its model only.
 */
WK_API int wk_step(struct wk_optimizer *optimizer);

/* Numbers of the last window of gradients that a wk_step of this optimizer ended, the same on all
 * ranks. They are those of a step that was not done, too. Before the first the loss is NaN and the
 * others are zero.
 *
 *   loss      the mean over the window's global batches; NaN where no pass has one
 *   norm      of the whole gradient before clipping; 0 if neither wk_clip_grad_norm nor the setting
 *             clip_grad_norm measured it
 *   finite    the whole gradient was
 *   skipped   fp16 skipped the update
 *
 * WK_ESTATE for an optimizer that was not prepared. */
struct wk_step_numbers {
    double loss, norm;
    bool finite, skipped;
};
WK_API int wk_step_numbers(const struct wk_optimizer *optimizer, struct wk_step_numbers *ret);

/* True if the last wk_step of this optimizer updated the parameters: false inside an accumulation
 * window and after a step that fp16 skipped. Use it for work once per step (logging, evaluating).
 * The answer is the same on all ranks. In a step that begins again because a rank was lost, an
 * update made before that counts. */
WK_API bool wk_step_taken(const struct wk_optimizer *optimizer);

/* With mixed_precision fp16: whether the last wk_step at a window's end skipped its update, the
 * number of skipped steps, and the loss scale (the lowest of several models). The scale starts at
 * 65536, doubles after 2000 steps without overflow and halves after each overflow (settings
 * loss_scale.*). Reported losses are never scaled; gradients are, until wk_step. In other
 * precisions: false, 0 and 1. */
WK_API bool wk_step_skipped(const struct wk_context *ctx);
WK_API int64_t wk_skipped_steps(const struct wk_context *ctx);
WK_API double wk_loss_scale(const struct wk_context *ctx);

/* Advance the schedule once per optimizer step. Does nothing if the last wk_step updated nothing.
 */
WK_API int wk_scheduler_step(struct wk_scheduler *scheduler);

WK_API int64_t wk_steps(const struct wk_context *ctx);       /* completed, over all runs */
WK_API int64_t wk_total_steps(const struct wk_context *ctx); /* 0 = unknown */

/* Global loss of the last completed step: the mean over its global batches. NaN before the first
 * step, and where the program's own passes set none (wk_set_loss). With several models it is the
 * loss of the first that has an optimizer. */
WK_API double wk_loss(const struct wk_context *ctx);

/* The same for one of several models: the loss of the last step that its optimizer made. NaN in the
 * same cases and for a model that was not prepared. */
WK_API double wk_model_loss(const struct wk_model *model);

/* For custom models: this rank's part of the loss of the pass of the next wk_backward, divided by
 * the batch's denominator. Call it before or after wk_grad_ready. A window in which no rank
 * called it has no loss. Logs and charts leave it out, with one notice. WK_ESTATE between the last
 * wk_backward of a window and wk_step, because that loss is already being summed. */
WK_API int wk_set_loss(struct wk_model *model, double loss);

/* wk_set_loss, wk_backward and wk_step in one, for complete passes of the program that announced no
 * gradient (wk_grad_ready). `optimizer` is the one of their model. Clipping follows the settings.
 * WK_EINVAL for a model of ours. */
WK_API int wk_update(struct wk_optimizer *optimizer, double loss);

/* Log a value of the last completed step, for the coordinator's charts and log_file. Only rank 0's
 * value counts; other ranks' calls do nothing, so no `if` is needed. Names match [a-z0-9_./-], at
 * most 63 bytes. Another name is WK_EINVAL, is left out, and does not end the training; the first
 * time there is a notice.
 *
 * `loss` of every step in which the model trained is logged automatically. Each progress line also
 * logs tokens_per_second (of rows without a length: samples), learning_rate and grad_norm. Those of
 * a second model are loss/2, learning_rate/2 and grad_norm/2.
 */
WK_API int wk_log(struct wk_context *ctx, const char *name, double value);

/* Reduce `value` over the ranks, for metrics and evaluation. All ranks call it. *value stays
 * unchanged when the generation ends meanwhile, or when a stop or a new generation cut an
 * evaluation short (zero1, zero2, fsdp). The next wk_next handles that event. */
WK_API int wk_reduce_value(struct wk_context *ctx, double *value, enum wk_op op);

/* Mean over a global batch, from each rank's `mean` over its own share. A share is weighted by its
 * samples; an empty share counts nothing, whatever `mean` is. All ranks call it. It returns `mean`
 * where wk_reduce_value would do nothing. */
WK_API double wk_batch_mean(struct wk_context *ctx, const struct wk_batch *batch, double mean);

/* Collective helpers: all ranks call them. In a broken generation nothing happens. */

/* Wait for all ranks. */
WK_API int wk_wait_for_all(struct wk_context *ctx);

/* Rank 0 runs the code between the two calls before the others do, for example to fill a cache
 * that they then read. With `local` the first rank of each machine does. */
WK_API int wk_main_first_begin(struct wk_context *ctx, bool local);
WK_API int wk_main_first_end(struct wk_context *ctx, bool local);

/* This rank's part of 0 … total-1: contiguous, with sizes that differ by at most one, larger ones
 * first (17 over 4: 5, 4, 4, 4). With `pad` every rank gets the largest size, and the program fills
 * the missing items with the last one; *ret_first + *ret_count may then exceed total. Local. */
WK_API void wk_split(const struct wk_context *ctx, int64_t total, bool pad, int64_t *ret_first,
                     int64_t *ret_count);

/* Early stopping and similar: any rank triggers, all ranks learn it at the next check, which resets
 * it. All ranks check. A loop that ends because of it must end on all ranks before the next
 * wk_next; wk_close then saves. */
WK_API void wk_trigger(struct wk_context *ctx);
WK_API bool wk_triggered(struct wk_context *ctx);

/* fprintf on rank 0, nothing on other ranks. If `fmt` ends a line, `out` is flushed: a pipe shows
 * the line at once, and a killed process loses none. Local. Not for errors. */
WK_API void wk_print(struct wk_context *ctx, FILE *out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Print the sentence of wk_last_error with this rank's number, or nothing without an error. For
 * stderr: each rank has its own error, and `muster why` shows the last output of a rank. Local. */
WK_API void wk_print_error(const struct wk_context *ctx, FILE *out);

/* The communicator of the current generation, for the program's own collectives. Valid until the
 * next wk_next. NULL if there is none. */
WK_API struct wk_comm *wk_communicator(struct wk_context *ctx);

/* Uniform in [0, 1): the same sequence on every rank, and part of every checkpoint. */
WK_API double wk_random(struct wk_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
