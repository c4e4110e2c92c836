/* Constructors of objects that the context owns (worker/owned.h). */
#include <stdlib.h>

#include <worker/graph.h>

#include "common/base/str.h"
#include "libworker/step/context.h"

enum { NUMBER_TEXT_MAX = 12 };

static bool may_make(const struct wk_context *ctx)
{
    return ctx && !ctx->failure.sticky.code;
}

/* Make the context own the object and return it; or return NULL, and the constructor's reason
 * becomes the context's error. */
static void *keep(struct wk_context *ctx, int rc, struct wk_object object)
{
    if (rc) {
        struct error err = {0};
        (void)error_set(&err, rc, "%s", error_kept_of((int)object.kind));
        (void)context_misuse(ctx, &err);
        return NULL;
    }
    if (wk_own(ctx, object)) {
        owned_free_object(object);
        return NULL;
    }
    return object.object;
}

struct wk_loader *wk_loader_in(struct wk_context *ctx, const char *path,
                               const struct wk_loader_options *options)
{
    struct wk_loader_options found = options ? *options : (struct wk_loader_options){0};
    struct wk_source *opened = NULL;
    struct wk_loader *loader = NULL;
    if (!may_make(ctx) || (path && options && wk_source_open(ctx, path, found.format, &opened)))
        return NULL;
    if (opened)
        found.source = opened;
    if (wk_loader_new(ctx, options ? &found : NULL, &loader)) {
        wk_source_free(opened);
        return NULL;
    }
    loader->opened = opened;
    return keep(ctx, 0, wk_object_loader(loader));
}

struct wk_loader *wk_rows_in(struct wk_context *ctx, const struct wk_row_options *rows,
                             const struct wk_loader_options *options)
{
    struct wk_loader_options found = options ? *options : (struct wk_loader_options){0};
    struct wk_loader *loader = NULL;
    if (!may_make(ctx) || wk_source_rows(ctx, rows, &found.source))
        return NULL;
    if (wk_loader_new(ctx, options ? &found : NULL, &loader)) {
        wk_source_free(found.source);
        return NULL;
    }
    loader->opened = found.source;
    return keep(ctx, 0, wk_object_loader(loader));
}

struct wk_model *wk_graph_in(struct wk_context *ctx, struct wk_graph *graph)
{
    struct wk_model *model = NULL;
    if (!may_make(ctx)) {
        wk_graph_free(graph);
        return NULL;
    }
    int rc = wk_graph_model(graph, &model);
    return keep(ctx, rc, wk_object_model(model));
}

struct wk_model *wk_gpt_in(struct wk_context *ctx, const struct wk_gpt_config *config)
{
    struct wk_model *model = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_gpt_new(config, &model);
    return keep(ctx, rc, wk_object_model(model));
}

struct wk_model *wk_llama_in(struct wk_context *ctx, const struct wk_llama_config *config)
{
    struct wk_model *model = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_llama_new(config, &model);
    return keep(ctx, rc, wk_object_model(model));
}

struct wk_model *wk_mlp_in(struct wk_context *ctx, const struct wk_mlp_config *config)
{
    struct wk_model *model = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_mlp_new(config, &model);
    return keep(ctx, rc, wk_object_model(model));
}

/* Buffers for parameters that are arrays with sizes; `numbers` gets their names. */
static void describe(const struct wk_custom_options *options, struct wk_buffer *buffers,
                     char (*numbers)[NUMBER_TEXT_MAX])
{
    for (int i = 0; i < options->count; i++) {
        (void)str_printf(numbers[i], NUMBER_TEXT_MAX, "%d", i);
        buffers[i] = (struct wk_buffer){
            .name = options->names ? options->names[i] : numbers[i],
            .dims = 1,
            .shape = {(int64_t)options->sizes[i]},
            .initial = options->data ? options->data[i] : NULL,
        };
    }
}

static int new_custom(const struct wk_custom_options *options, struct wk_model **ret)
{
    struct error err = {0};
    if (!options)
        (void)error_set(&err, WK_EINVAL, "a model's options are NULL");
    else if (options->count > 0 && !options->buffers && !options->sizes)
        (void)error_set(&err, WK_EINVAL, "a model of %d parameters needs its buffers or its sizes",
                        options->count);
    if (err.code)
        return error_keep_of(WK_OBJECT_MODEL, &err);
    if (options->buffers || options->count < 1)
        return wk_custom_new(options->buffers, options->count, ret);
    struct wk_buffer *buffers = calloc((size_t)options->count, sizeof(*buffers));
    char(*numbers)[NUMBER_TEXT_MAX] = calloc((size_t)options->count, sizeof(*numbers));
    int rc;
    if (buffers && numbers) {
        describe(options, buffers, numbers);
        rc = wk_custom_new(buffers, options->count, ret);
    } else {
        (void)error_set(&err, WK_ENOMEM, "no memory for %d parameters", options->count);
        rc = error_keep_of(WK_OBJECT_MODEL, &err);
    }
    free(numbers);
    free(buffers);
    return rc;
}

struct wk_model *wk_custom_in(struct wk_context *ctx, const struct wk_custom_options *options)
{
    struct wk_model *model = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = new_custom(options, &model);
    if (!rc) {
        (void)wk_bind_parameters(model, options->data, options->grads);
        (void)wk_mean_of_share(model, options->mean_of_share);
    }
    return keep(ctx, rc, wk_object_model(model));
}

struct wk_optimizer *wk_adam_in(struct wk_context *ctx, const struct wk_adamw_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_adam_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_adamw_in(struct wk_context *ctx, const struct wk_adamw_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_adamw_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_sgd_in(struct wk_context *ctx, const struct wk_sgd_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_sgd_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_lion_in(struct wk_context *ctx, const struct wk_lion_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_lion_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_adafactor_in(struct wk_context *ctx,
                                     const struct wk_adafactor_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_adafactor_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_muon_in(struct wk_context *ctx, const struct wk_muon_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_muon_new(options, &optimizer);
    return keep(ctx, rc, wk_object_optimizer(optimizer));
}

struct wk_optimizer *wk_optimizer_in(struct wk_context *ctx,
                                     const struct wk_optimizer_options *options)
{
    struct wk_optimizer *optimizer = NULL;
    if (!may_make(ctx) || wk_optimizer_new(ctx, options, &optimizer))
        return NULL;
    return keep(ctx, 0, wk_object_optimizer(optimizer));
}

struct wk_scheduler *wk_scheduler_in(struct wk_context *ctx, struct wk_optimizer *optimizer,
                                     const struct wk_schedule_options *options)
{
    struct wk_scheduler *scheduler = NULL;
    if (!may_make(ctx))
        return NULL;
    int rc = wk_scheduler_new(optimizer, options, &scheduler);
    return keep(ctx, rc, wk_object_scheduler(scheduler));
}
