/* Objects that a context owns: made in it, freed by wk_close.
 *
 *     struct wk_context *ctx = wk_begin(NULL);
 *     struct wk_loader *loader = wk_loader_in(ctx, "text.txt", &deal);
 *     struct wk_model *model = wk_gpt_in(ctx, &config);
 *     struct wk_optimizer *adamw = wk_adamw_in(ctx, &options);
 *     while (wk_next(loader, &batch))
 *         …
 *     return wk_finish(ctx);
 *
 * Each constructor does what the one of its name does (wk_gpt_new, …) and gives the object itself.
 * It gives NULL where that fails: then the reason is the context's error, so what follows does
 * nothing, and a program needs no check. In a context that has an error, or NULL, it makes nothing.
 * A program that does not call wk_prepare leaves it to its first wk_next or wk_join, which prepares
 * what the context owns.
 * What a context owns goes with wk_close and no sooner: wk_model_free and its like do nothing to it
 * before, and the program neither uses nor frees it after.
 *
 * One thread per context.
 */
#ifndef WORKER_OWNED_H
#define WORKER_OWNED_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/data.h>
#include <worker/export.h>
#include <worker/nn.h>
#include <worker/optim.h>
#include <worker/parallel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;
struct wk_object;
struct wk_options;

/* wk_open, giving the context itself; NULL only when memory is out. */
WK_API struct wk_context *wk_begin(const struct wk_options *options);

/* wk_print_error to stderr, then wk_close: the exit code for main. */
WK_API int wk_finish(struct wk_context *ctx);

/* The context frees an object that was made otherwise, too; once, however often it is said. NULL is
 * fine. WK_ESTATE for one that another context owns or has prepared, WK_ENOMEM beyond WK_OWNED_MAX
 * objects, the context's error: the object stays whose it was. */
enum { WK_OWNED_MAX = 64 };
WK_API int wk_own(struct wk_context *ctx, struct wk_object object);

/* A loader over the file `path`, in the options' format; their source is not looked at. With path
 * NULL over that source, which stays the program's. */
WK_API struct wk_loader *wk_loader_in(struct wk_context *ctx, const char *path,
                                      const struct wk_loader_options *options);

WK_API struct wk_model *wk_gpt_in(struct wk_context *ctx, const struct wk_gpt_config *config);
WK_API struct wk_model *wk_llama_in(struct wk_context *ctx, const struct wk_llama_config *config);
WK_API struct wk_model *wk_mlp_in(struct wk_context *ctx, const struct wk_mlp_config *config);

/* wk_custom_new, wk_bind_parameters and wk_mean_of_share in one. What parameters there are is said
 * by `buffers`, or for a program that keeps arrays of pointers and sizes by those: parameter i has
 * sizes[i] elements, one dimension, its initial values at data[i] (NULL: zeros), takes no part in
 * weight decay and is named names[i], without names i ("0", "1", …). */
struct wk_custom_options {
    int count;                       /* parameters */
    const struct wk_buffer *buffers; /* [count], or NULL: as `sizes` says */
    const size_t *sizes;             /* [count] */
    const char *const *names;        /* [count], or NULL */
    float **data, **grads;           /* [count], bound if not NULL; see wk_bind_parameters */
    bool mean_of_share;
};
WK_API struct wk_model *wk_custom_in(struct wk_context *ctx,
                                     const struct wk_custom_options *options);

WK_API struct wk_optimizer *wk_adam_in(struct wk_context *ctx,
                                       const struct wk_adamw_options *options);
WK_API struct wk_optimizer *wk_adamw_in(struct wk_context *ctx,
                                        const struct wk_adamw_options *options);
WK_API struct wk_optimizer *wk_sgd_in(struct wk_context *ctx, const struct wk_sgd_options *options);
WK_API struct wk_optimizer *wk_lion_in(struct wk_context *ctx,
                                       const struct wk_lion_options *options);
WK_API struct wk_optimizer *wk_adafactor_in(struct wk_context *ctx,
                                            const struct wk_adafactor_options *options);
WK_API struct wk_optimizer *wk_muon_in(struct wk_context *ctx,
                                       const struct wk_muon_options *options);
WK_API struct wk_optimizer *wk_optimizer_in(struct wk_context *ctx,
                                            const struct wk_optimizer_options *options);
WK_API struct wk_scheduler *wk_scheduler_in(struct wk_context *ctx, struct wk_optimizer *optimizer,
                                            const struct wk_schedule_options *options);

#ifdef __cplusplus
}
#endif

#endif
