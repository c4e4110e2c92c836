/* Objects that a context owns: made in it, freed by wk_close.
 *
 *       struct wk_context *ctx = wk_begin(NULL);
 *       struct wk_loader *loader = wk_loader_in(ctx, "text.txt", &deal);
 *       struct wk_model *model = wk_gpt_in(ctx, &config);
 *       struct wk_optimizer *adamw = wk_adamw_in(ctx, &options);
 *       while (wk_next(loader, &batch))
 *           …
 *       return wk_finish(ctx);
 *
 * Each constructor does the same as its namesake (wk_gpt_new, …) and returns the object itself. On
 * failure it returns NULL and sets the context's error. Later calls then do nothing, so a program
 * needs no check. In a context with an error, or in NULL, it makes nothing. Without a call of
 * wk_prepare the first wk_next or wk_join prepares what the context owns.
 *
 * wk_close frees the objects. Before that wk_model_free and similar calls do nothing to them. After
 * that the program neither uses nor frees them.
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
struct wk_graph;
struct wk_object;
struct wk_options;

/* wk_open that returns the context itself; NULL only if memory is out. */
WK_API struct wk_context *wk_begin(const struct wk_options *options);

/* wk_print_error to stderr, then wk_close: the exit code for main. */
WK_API int wk_finish(struct wk_context *ctx);

/* Let the context free an object that was made otherwise. Repeating the call changes nothing; NULL
 * is allowed. WK_ESTATE if another context owns or has prepared the object, WK_ENOMEM beyond
 * WK_OWNED_MAX objects. Both are the context's error, and the object keeps its owner. */
enum { WK_OWNED_MAX = 64 };
WK_API int wk_own(struct wk_context *ctx, struct wk_object object);

/* A loader over the file `path`, in the options' format; the options' source is ignored. With path
 * NULL the loader uses that source, which stays the program's. */
WK_API struct wk_loader *wk_loader_in(struct wk_context *ctx, const char *path,
                                      const struct wk_loader_options *options);

/* A loader over rows (worker/rows.h) with a source of its own; the options' source is ignored. */
WK_API struct wk_loader *wk_rows_in(struct wk_context *ctx, const struct wk_row_options *rows,
                                    const struct wk_loader_options *options);

/* wk_graph_model: it owns the graph then, also on failure and in a context with an error. */
WK_API struct wk_model *wk_graph_in(struct wk_context *ctx, struct wk_graph *graph);
WK_API struct wk_model *wk_gpt_in(struct wk_context *ctx, const struct wk_gpt_config *config);
WK_API struct wk_model *wk_llama_in(struct wk_context *ctx, const struct wk_llama_config *config);
WK_API struct wk_model *wk_mlp_in(struct wk_context *ctx, const struct wk_mlp_config *config);

/* wk_custom_new, wk_bind_parameters and wk_mean_of_share in one. `buffers` describes the
 * parameters. A program with arrays of pointers and sizes leaves `buffers` NULL: parameter i then
 * has sizes[i] elements in one dimension and its initial values at data[i] (NULL: zeros). Its
 * name is names[i], or i ("0", "1", …) without names, and weight decay does not apply to it. */
struct wk_custom_options {
    int count;                       /* parameters */
    const struct wk_buffer *buffers; /* [count], or NULL: `sizes` describes them */
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
