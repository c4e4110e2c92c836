/* A program with its own forward and backward passes: an embedding, a hidden layer with tanh and
 * logits learn which byte of a text follows which. plain.c knows nothing of libworker; byo.c is the
 * same program made distributed.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <worker/worker.h>

enum { BYTES = 256, WIDTH = 24, HIDDEN = 48, LENGTH = 8, BATCH = 20, TEXT_MAX = 1 << 20 };
enum { EMBEDDING, INNER, OUTER, PARAMETERS };

static const struct {
    const char *name;
    int rows, cols;
} shape[PARAMETERS] = {
    {"embedding", BYTES, WIDTH},
    {"inner", WIDTH, HIDDEN},
    {"outer", HIDDEN, BYTES},
};
static const float RATE = 0.5f;

struct parameter {
    float *data, *grad;
};

/* Small numbers that look random, the same in every run. */
static void fill(float *values, int p)
{
    uint32_t state = 17 + (uint32_t)p;
    for (int i = 0; i < shape[p].rows * shape[p].cols; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = ((float)(state >> 8) / (1 << 24) - 0.5f) * 0.4f;
    }
}

/* out[n] += x[m] w[m, n], where w is parameter p */
static void product(const struct parameter *net, int p, float *out, const float *x)
{
    int n = shape[p].cols;
    for (int i = 0; i < shape[p].rows; i++)
        for (int j = 0; j < n; j++)
            out[j] += x[i] * net[p].data[i * n + j];
}

/* dx[m] += dout[n] w[m, n]ᵀ and dw[m, n] += x[m] dout[n] */
static void product_back(const struct parameter *net, int p, float *dx, const float *x,
                         const float *dout)
{
    int n = shape[p].cols;
    for (int i = 0; i < shape[p].rows; i++) {
        for (int j = 0; j < n; j++) {
            dx[i] += dout[j] * net[p].data[i * n + j];
            net[p].grad[i * n + j] += x[i] * dout[j];
        }
    }
}

/* Logits become probabilities. Returns the loss. */
static double softmax_loss(float *logits, int target)
{
    double sum = 0, chosen = (double)logits[target];
    for (int j = 0; j < BYTES; j++)
        sum += exp((double)logits[j]);
    for (int j = 0; j < BYTES; j++)
        logits[j] = (float)(exp((double)logits[j]) / sum);
    return log(sum) - chosen;
}

/* One token: adds to the gradients; returns its loss. Both as parts of the batch's mean. */
static double token_pass(const struct parameter *net, int token, int target)
{
    const float share = 1.0f / (BATCH * LENGTH);
    float hidden[HIDDEN] = {0}, logits[BYTES] = {0}, dhidden[HIDDEN] = {0};
    const float *x = net[EMBEDDING].data + token * WIDTH;
    product(net, INNER, hidden, x);
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = tanhf(hidden[i]);
    product(net, OUTER, logits, hidden);
    double loss = softmax_loss(logits, target);

    logits[target] -= 1;
    for (int i = 0; i < BYTES; i++)
        logits[i] *= share;
    product_back(net, OUTER, dhidden, hidden, logits);
    for (int i = 0; i < HIDDEN; i++)
        dhidden[i] *= 1 - hidden[i] * hidden[i];
    product_back(net, INNER, net[EMBEDDING].grad + token * WIDTH, x, dhidden);
    return loss * (double)share;
}

static double pass(const struct parameter *net, const int32_t *tokens, const int32_t *targets,
                   int64_t count)
{
    double loss = 0;
    for (int64_t i = 0; i < count; i++)
        loss += token_pass(net, tokens[i], targets[i]);
    return loss;
}

int main(int argc, char **argv)
{
    static float start[PARAMETERS][BYTES * HIDDEN];
    struct wk_loader_options deal = {NULL, LENGTH, BATCH, 1, .sequential = true, .drop_last = true};
    struct wk_buffer buffers[PARAMETERS];
    struct wk_context *ctx;
    struct wk_loader *loader = NULL;
    struct wk_model *model = NULL;
    struct wk_optimizer *sgd = NULL;
    struct parameter net[PARAMETERS];
    const char *path = argc > 1 ? argv[1] : "LICENSE";

    for (int p = 0; p < PARAMETERS; p++) {
        fill(start[p], p);
        buffers[p] = (struct wk_buffer){shape[p].name, 2, {shape[p].rows, shape[p].cols}, start[p]};
    }
    wk_open(NULL, &ctx);
    wk_source_open(ctx, path, WK_SOURCE_TEXT, &deal.source);
    wk_loader_new(ctx, &deal, &loader);
    wk_custom_new(buffers, PARAMETERS, &model);
    wk_sgd_new(&(struct wk_sgd_options){.rate = RATE}, &sgd);
    wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(sgd), WK_OBJECT(loader));

    for (struct wk_batch batch; wk_next(loader, &batch);) {
        for (int p = 0; p < PARAMETERS; p++)
            net[p] = (struct parameter){wk_parameter_data(model, p), wk_parameter_grad(model, p)};
        wk_set_loss(model, pass(net, batch.tokens, batch.targets, batch.samples * LENGTH));
        wk_backward(model);
        wk_step(sgd);
    }
    return wk_print_error(ctx, stderr), wk_close(ctx);
}
