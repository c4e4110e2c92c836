/* The smallest training loop: a feed-forward network learns which byte follows the last eight of a
 * text. The same program runs alone and as `muster run -N 2 -- build/examples/mlp README.md`.
 */
#include <stdio.h>

#include <worker/worker.h>

enum { LENGTH = 32, BATCH = 64 };

struct training {
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
};

/* Whatever cannot be made stays NULL, and wk_prepare says why. */
static void make(struct training *t, struct wk_context *ctx, const char *path)
{
    struct wk_mlp_config shape = {
        .layers = 2, .window = 8, .embedding = 16, .width = 128, .context = LENGTH, .vocab = 256};
    struct wk_adamw_options adamw = {
        .rate = 2e-3, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.01};
    wk_source_open(ctx, path, WK_SOURCE_TEXT, &t->source);
    wk_loader_new(ctx, &(struct wk_loader_options){t->source, LENGTH, BATCH}, &t->loader);
    wk_mlp_new(&shape, &t->model);
    wk_adamw_new(&adamw, &t->optimizer);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: mlp TEXT\n"), 2;
    struct training t = {0};
    struct wk_context *ctx;
    struct wk_setting settings[] = {{"total_steps", "300"}, {"log_every", "50"}};
    wk_open(&(struct wk_options){.settings = settings, .n_settings = 2}, &ctx);
    make(&t, ctx, argv[1]);
    wk_prepare_all(ctx, WK_OBJECT(t.model), WK_OBJECT(t.optimizer), WK_OBJECT(t.loader));
    struct wk_batch batch;
    while (wk_next(t.loader, &batch)) {
        wk_forward(t.model, &batch, NULL);
        wk_backward(t.model);
        wk_step(t.optimizer);
    }
    if (!wk_status(ctx))
        wk_print(ctx, stdout, "done: %lld steps, loss %.4f, %d ranks\n", (long long)wk_steps(ctx),
                 wk_loss(ctx), wk_world(ctx));
    wk_print_error(ctx, stderr);
    int code = wk_close(ctx);
    wk_optimizer_free(t.optimizer);
    wk_model_free(t.model);
    wk_loader_free(t.loader);
    wk_source_free(t.source);
    return code;
}
