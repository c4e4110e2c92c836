/* A program with its own forward and backward passes: an embedding, a hidden layer with tanh and
 * logits learn which byte of a text follows which. Now and then it looks at its loss on a text held
 * out and writes a sample. plain.c knows nothing of libworker; byo.c is the same program made
 * distributed.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <worker/worker.h>

enum { BYTES = 256, WIDTH = 24, HIDDEN = 48, LENGTH = 8, BATCH = 20, STEPS = 60 };
enum { HELD_OUT_EVERY = 20, HELD_OUT = 5, SAMPLE_EVERY = 30, SAMPLE = 64, TEXT_MAX = 1 << 20 };
enum { EMBEDDING, INNER, OUTER, PARAMETERS };

static const int rows[PARAMETERS] = {BYTES, WIDTH, HIDDEN};
static const int cols[PARAMETERS] = {WIDTH, HIDDEN, BYTES};
static const size_t size[PARAMETERS] = {BYTES * WIDTH, WIDTH *HIDDEN, HIDDEN *BYTES};
static const float RATE = 0.5f;

struct net {
    float *data[PARAMETERS], *grad[PARAMETERS];
    float *memory; /* of all of them */
};

/* Small numbers that look random, the same in every run. */
static void fill(float *values, int p)
{
    uint32_t state = 17 + (uint32_t)p;
    for (size_t i = 0; i < size[p]; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = ((float)(state >> 8) / (1 << 24) - 0.5f) * 0.4f;
    }
}

static int net_init(struct net *net)
{
    size_t total = 0;
    for (int p = 0; p < PARAMETERS; p++)
        total += size[p];
    net->memory = calloc(2 * total, sizeof(*net->memory));
    if (!net->memory)
        return -1;
    float *at = net->memory;
    for (int p = 0; p < PARAMETERS; p++) {
        net->data[p] = at;
        net->grad[p] = at + total;
        fill(at, p);
        at += size[p];
    }
    return 0;
}

/* out[n] += x[m] w[m, n], where w is parameter p */
static void product(const struct net *net, int p, float *out, const float *x)
{
    int n = cols[p];
    for (int i = 0; i < rows[p]; i++)
        for (int j = 0; j < n; j++)
            out[j] += x[i] * net->data[p][i * n + j];
}

/* dx[m] += dout[n] w[m, n]ᵀ and dw[m, n] += x[m] dout[n] */
static void product_back(const struct net *net, int p, float *dx, const float *x, const float *dout)
{
    int n = cols[p];
    for (int i = 0; i < rows[p]; i++) {
        for (int j = 0; j < n; j++) {
            dx[i] += dout[j] * net->data[p][i * n + j];
            net->grad[p][i * n + j] += x[i] * dout[j];
        }
    }
}

/* Of one token: the hidden layer, and the probabilities of what follows. */
static void token_forward(const struct net *net, int token, float hidden[HIDDEN], float out[BYTES])
{
    double sum = 0;
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = 0;
    product(net, INNER, hidden, net->data[EMBEDDING] + token * WIDTH);
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = tanhf(hidden[i]);
    for (int i = 0; i < BYTES; i++)
        out[i] = 0;
    product(net, OUTER, out, hidden);
    for (int i = 0; i < BYTES; i++)
        sum += exp((double)out[i]);
    for (int i = 0; i < BYTES; i++)
        out[i] = (float)(exp((double)out[i]) / sum);
}

/* Adds to the gradients, `share` times those of the token's loss. */
static void token_backward(const struct net *net, int token, const float hidden[HIDDEN],
                           float dout[BYTES], float share)
{
    float dhidden[HIDDEN] = {0};
    for (int i = 0; i < BYTES; i++)
        dout[i] *= share;
    product_back(net, OUTER, dhidden, hidden, dout);
    for (int i = 0; i < HIDDEN; i++)
        dhidden[i] *= 1 - hidden[i] * hidden[i];
    product_back(net, INNER, net->grad[EMBEDDING] + token * WIDTH,
                 net->data[EMBEDDING] + token * WIDTH, dhidden);
}

/* The mean loss of `samples` of LENGTH tokens; with `learn` its gradients are added. */
static double pass(const struct net *net, const int32_t *tokens, const int32_t *targets,
                   int64_t samples, int learn)
{
    float hidden[HIDDEN], out[BYTES];
    int64_t count = samples * LENGTH;
    double loss = 0;
    for (int64_t i = 0; i < count; i++) {
        token_forward(net, tokens[i], hidden, out);
        loss -= log((double)out[targets[i]]);
        out[targets[i]] -= 1;
        if (learn)
            token_backward(net, tokens[i], hidden, out, 1.0f / (float)count);
    }
    return loss / (double)count;
}

static void write_sample(const struct net *net, uint32_t state)
{
    float hidden[HIDDEN], out[BYTES];
    int token = ' ';
    printf("sample: ");
    for (int i = 0; i < SAMPLE; i++) {
        token_forward(net, token, hidden, out);
        state = state * 1664525 + 1013904223;
        float coin = (float)(state >> 8) / (1 << 24);
        for (token = 0; token < BYTES - 1 && coin >= out[token]; token++)
            coin -= out[token];
        putchar(token >= ' ' && token <= '~' ? token : '_');
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "LICENSE";
    const char *held_out_path = argc > 2 ? argv[2] : path;
    struct net net;
    if (net_init(&net))
        return 1;
    struct wk_loader_options deal = {NULL, LENGTH, BATCH, .sequential = true, .batches = STEPS};
    struct wk_loader_options look = {
        NULL, LENGTH, BATCH, .sequential = true, .batches = HELD_OUT, .evaluation = true};
    struct wk_custom_options own = {PARAMETERS, NULL, size, NULL, net.data, net.grad, true};
    struct wk_context *ctx = wk_begin(NULL);
    struct wk_loader *train = wk_loader_in(ctx, path, &deal);
    struct wk_loader *held_out = wk_loader_in(ctx, held_out_path, &look);
    wk_custom_in(ctx, &own);
    struct wk_optimizer *sgd = wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = RATE});

    for (struct wk_batch batch; wk_next(train, &batch);) {
        int step = (int)wk_steps(ctx);
        if (step % HELD_OUT_EVERY == 0) {
            double sum = 0;
            for (struct wk_batch at; wk_next(held_out, &at);) {
                sum += wk_batch_mean(ctx, &at, pass(&net, at.tokens, at.targets, at.samples, 0));
            }
            wk_print(ctx, stdout, "held out %.5f\n", sum / HELD_OUT);
        }
        if (wk_is_main(ctx) && step % SAMPLE_EVERY == SAMPLE_EVERY - 1)
            write_sample(&net, (uint32_t)step);
        double loss = pass(&net, batch.tokens, batch.targets, batch.samples, 1);
        wk_update(sgd, loss);
    }

    free(net.memory);
    return wk_finish(ctx);
}
