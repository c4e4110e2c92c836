/* An encoder learns the bytes of a text that are hidden from it (Devlin et al. 2019): every
 * position sees all others, and only hidden ones have a target. The same program runs alone and as
 * `muster run -N 2 -- build/examples/bert README.md`.
 */
#include <stdio.h>
#include <stdlib.h>

#include <worker/worker.h>

#include "examples/flags/flags.h"

enum { LENGTH = 64, LAYERS = 2, HEADS = 4, WIDTH = 64, INNER = 4 * WIDTH };
enum { MASK = 256, VOCAB = 257 };            /* bytes, and what hides one */
enum { EVERY = 8, HIDDEN = LENGTH / EVERY }; /* one of each EVERY bytes is hidden */
enum { TEXT_MAX = 1 << 26, HELD_OUT = 16 };  /* bytes; every 16th sample is not trained on */

struct text {
    unsigned char *bytes;
    int64_t size;
};

/* NULL bytes if it cannot be read. */
static struct text text_read(const char *path)
{
    struct text text = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (file) {
        text.bytes = malloc(TEXT_MAX);
        text.size = text.bytes ? (int64_t)fread(text.bytes, 1, TEXT_MAX, file) : 0;
        (void)fclose(file);
    }
    return text;
}

/* Sample i begins at byte i * LENGTH, but for those held out. */
static int64_t trained_at(int64_t sample)
{
    return (sample / (HELD_OUT - 1) * HELD_OUT + sample % (HELD_OUT - 1)) * LENGTH;
}

static int64_t held_out_at(int64_t sample)
{
    return (sample * HELD_OUT + HELD_OUT - 1) * LENGTH;
}

/* Hide bytes: other ones in every epoch, as many in every sample. */
static void hide(const unsigned char *bytes, uint64_t key, void *const *fields)
{
    int32_t *tokens = fields[0], *targets = fields[1];
    for (int i = 0; i < LENGTH; i++) {
        bool hides = i % EVERY == (int)(wk_noise(key, (uint64_t)(i / EVERY)) * EVERY);
        tokens[i] = hides ? MASK : bytes[i];
        targets[i] = hides ? bytes[i] : WK_IGNORED;
    }
}

static int draw(void *text, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    const struct text *t = text;
    hide(t->bytes + trained_at(sample), wk_noise_key(seed, epoch, sample), fields);
    return 0;
}

static int draw_held_out(void *text, int64_t sample, int64_t epoch, uint64_t seed,
                         void *const *fields)
{
    const struct text *t = text;
    hide(t->bytes + held_out_at(sample), wk_noise_key(seed, epoch, sample), fields);
    return 0;
}

/* Norms follow the sums, as in BERT. */
static struct wk_tensor *layer(struct wk_tensor *x)
{
    struct wk_attention_options all = {.heads = HEADS, .full = true};
    struct wk_tensor *y = wk_layer_attention(x, "attention", &all);
    x = wk_layer_norm(wk_op_add(x, y), "norm1");
    y = wk_op_gelu_erf(wk_layer_linear(x, "up", INNER));
    y = wk_layer_linear(y, "down", WIDTH);
    return wk_layer_norm(wk_op_add(x, y), "norm2");
}

static struct wk_graph *bert(void)
{
    struct wk_graph *g = wk_graph_new("bert");
    struct wk_shape text = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, text);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, text);
    wk_graph_block(g, "embedding");
    struct wk_tensor *x = wk_layer_embedding(tokens, "token", VOCAB, WIDTH);
    struct wk_tensor *positions = wk_graph_param(g, "position", WK_SHAPE(LENGTH, WIDTH), NULL);
    x = wk_layer_norm(wk_op_add(x, wk_op_prefix(positions)), "norm");
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = layer(x);
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    return g;
}

/* Share of the hidden bytes that the model names. */
static double accuracy_of(struct wk_context *ctx, struct wk_model *model, struct wk_loader *loader)
{
    static int32_t likeliest[64 * LENGTH];
    double right = 0, all = 0;
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        wk_evaluate(model, &batch, NULL, &(struct wk_outputs){.likeliest = likeliest});
        for (int64_t i = 0; i < batch.samples * batch.length; i++)
            right += likeliest[i] == batch.targets[i] ? 1 : 0;
        all += (double)(batch.samples * HIDDEN);
    }
    wk_reduce_value(ctx, &right, WK_SUM);
    wk_reduce_value(ctx, &all, WK_SUM);
    return right / all;
}

static int train(struct text *text, const struct flags *flags)
{
    static const struct wk_field fields[] = {{"tokens", WK_I32, 1, {LENGTH}},
                                             {"targets", WK_I32, 1, {LENGTH}}};
    int64_t groups = text->size / LENGTH / HELD_OUT;
    struct wk_row_options seen = {groups * (HELD_OUT - 1), fields, 2, draw, text};
    struct wk_row_options unseen = {groups, fields, 2, draw_held_out, text};
    struct wk_setting settings[] = {{"total_steps", flags->steps}, {"log_every", "50"}};
    struct wk_context *ctx = wk_begin(&(struct wk_options){.settings = settings, .n_settings = 2});
    struct wk_loader *loader =
        wk_rows_in(ctx, &seen, &(struct wk_loader_options){.batch = flags->batch});
    struct wk_loader *held_out = wk_rows_in(
        ctx, &unseen, &(struct wk_loader_options){.batch = 64, .epochs = 1, .evaluation = true});
    struct wk_model *model = wk_graph_in(ctx, bert());
    struct wk_optimizer *optimizer =
        wk_optimizer_in(ctx, &(struct wk_optimizer_options){.rate = flags->rate});
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        wk_forward(model, &batch, NULL);
        wk_backward(model);
        wk_clip_grad_norm(model, 1, NULL);
        wk_step(optimizer);
    }
    double accuracy = accuracy_of(ctx, model, held_out);
    if (!wk_status(ctx))
        wk_print(ctx, stdout, "done: %lld steps, loss %.4f, accuracy %.3f, %d ranks\n",
                 (long long)wk_steps(ctx), wk_loss(ctx), accuracy, wk_world(ctx));
    return wk_finish(ctx);
}

int main(int argc, char **argv)
{
    struct flags flags = {.steps = "300", .batch = 32, .rate = 2e-3, .text = "README.md"};
    if (flags_parse(argc, argv, &flags))
        return WK_EXIT_CONFIG;
    struct text text = text_read(flags.text);
    if (!text.bytes)
        (void)fprintf(stderr, "bert: %s cannot be read\n", flags.text);
    int code = text.bytes ? train(&text, &flags) : WK_EXIT_CONFIG;
    free(text.bytes);
    return code;
}
