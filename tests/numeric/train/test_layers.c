/* A program that makes a network of its own out of worker/layers.h, a convolution, GELU and a
 * linear layer, trains it to tell stripes apart: under any strategy, on any ranks, as one process
 * does. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "libworker/step/context.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"

enum { RANKS_MAX = 3, STEPS = 25, BATCH = 12, SIDE = 8, PIXELS = SIDE * SIDE, KINDS = 3 };
enum { CHANNELS = 4, KERNEL = 3, FEATURES = CHANNELS * (SIDE / 2) * (SIDE / 2) };
enum { FILTERS, SHIFTS, WEIGHT, BIAS, PARAMS };

static const double RATE = 2e-2;

static float filters[CHANNELS * KERNEL * KERNEL], weight[FEATURES * KINDS];

static const struct wk_buffer buffers[PARAMS] = {
    {.name = "conv.weight", .dims = 4, .shape = {CHANNELS, 1, KERNEL, KERNEL}, .initial = filters},
    {.name = "conv.bias", .dims = 1, .shape = {CHANNELS}},
    {.name = "head.weight", .dims = 2, .shape = {FEATURES, KINDS}, .initial = weight},
    {.name = "head.bias", .dims = 1, .shape = {KINDS}},
};

struct rank {
    const char *strategy;
    struct session *session;
    double losses[STEPS];
};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static float noise(int64_t i)
{
    return (float)sin(12.9898 * (double)i) * 0.5f;
}

/* Stripes across, stripes down, squares; not quite. */
static int32_t draw(int64_t sample, float image[PIXELS])
{
    int32_t kind = (int32_t)(sample * 7 % KINDS);
    for (int i = 0; i < PIXELS; i++) {
        int y = i / SIDE / 2, x = i % SIDE / 2;
        int on = kind == 0 ? y % 2 : kind == 1 ? x % 2 : (x + y) % 2;
        image[i] = (float)on - 0.5f + noise(sample * PIXELS + i);
    }
    return kind;
}

/* Gradients and loss of the sum over `count` samples. */
static void passes(struct wk_model *model, int64_t first, int64_t count)
{
    static _Thread_local float x[BATCH * PIXELS], hidden[BATCH * FEATURES],
        active[BATCH * FEATURES], dactive[BATCH * FEATURES], dhidden[BATCH * FEATURES],
        logits[BATCH * KINDS];
    int32_t kinds[BATCH];
    double loss = 0;
    struct wk_conv conv = {count, 1, SIDE, SIDE, CHANNELS, KERNEL, 2, 1};
    conv.weight = wk_parameter_data(model, FILTERS);
    conv.bias = wk_parameter_data(model, SHIFTS);
    conv.dweight = wk_parameter_grad(model, FILTERS);
    conv.dbias = wk_parameter_grad(model, SHIFTS);
    struct wk_linear head = {.in = FEATURES, .out = KINDS};
    head.weight = wk_parameter_data(model, WEIGHT);
    head.bias = wk_parameter_data(model, BIAS);
    head.dweight = wk_parameter_grad(model, WEIGHT);
    head.dbias = wk_parameter_grad(model, BIAS);
    struct wk_cross_entropy entropy = {count, KINDS, kinds, 0};
    for (int64_t i = 0; i < count; i++)
        kinds[i] = draw(first + i, x + i * PIXELS);

    CHECK(wk_conv_forward(&conv, hidden, x) == 0);
    wk_gelu_forward(active, hidden, (size_t)(count * FEATURES));
    CHECK(wk_linear_forward(&head, logits, active, count) == 0);
    CHECK(wk_cross_entropy_forward(&entropy, logits, &loss) == 0);
    wk_set_loss(model, loss);

    CHECK(wk_cross_entropy_backward(&entropy, logits, 1) == 0);
    CHECK(wk_linear_backward(&head, dactive, active, logits, count) == 0);
    wk_grad_ready(model, BIAS);
    wk_grad_ready(model, WEIGHT);
    wk_gelu_backward(dhidden, hidden, dactive, (size_t)(count * FEATURES));
    CHECK(wk_conv_backward(&conv, NULL, x, dhidden) == 0);
    wk_grad_ready(model, SHIFTS);
    wk_grad_ready(model, FILTERS);
}

static void train(struct rank *r, struct wk_context *ctx, struct wk_model *model,
                  struct wk_optimizer *optimizer)
{
    for (;;) {
        int64_t first, count, step = wk_steps(ctx);
        wk_split(ctx, step < STEPS ? BATCH : 0, false, &first, &count);
        if (!wk_join(ctx, (double)count))
            break;
        passes(model, step * BATCH + first, count);
        wk_backward(model);
        CHECK(wk_step(optimizer) == 0);
        if (wk_steps(ctx) > step)
            r->losses[step] = wk_loss(ctx);
    }
    CHECK(wk_steps(ctx) == STEPS);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {
        .environment = &environment, .session = r->session, .quiet = true};
    struct wk_setting settings[] = {{"strategy", r->strategy}};
    struct wk_options options = {.settings = settings, .n_settings = 1};
    struct wk_adamw_options adamw = {RATE, 0.9, 0.99, 1e-8, 0};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_custom_new(buffers, PARAMS, &model) == 0 && wk_adamw_new(&adamw, &optimizer) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)) == 0);
    train(r, ctx, model, optimizer);
    CHECK(wk_close(ctx) == 0);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void run(const char *strategy, int n, double ret_losses[STEPS])
{
    static const int workers[RANKS_MAX] = {0, 1, 2};
    struct rank ranks[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, workers, n);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.strategy = strategy, .session = fake_session(&cluster, i)};
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
    for (int step = 0; step < STEPS; step++)
        ret_losses[step] = ranks[0].losses[step];
}

static void a_network_of_its_own_layers_trains_as_one_process_does(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    double one[STEPS], other[STEPS], apart = 0;
    for (int i = 0; i < CHANNELS * KERNEL * KERNEL; i++)
        filters[i] = noise(i + 1);
    for (int i = 0; i < FEATURES * KINDS; i++)
        weight[i] = noise(i + 100) * 0.2f;
    run("ddp", 1, one);
    printf("losses from %.3f to %.3f\n", one[0], one[STEPS - 1]);
    CHECK(one[0] > 1 && one[STEPS - 1] < 0.1);
    for (int s = 0; s < 4; s++)
        for (int n = 1; n <= RANKS_MAX; n++) {
            run(strategies[s], n, other);
            for (int step = 0; step < STEPS; step++)
                apart = fmax(apart, fabs(other[step] - one[step]));
        }
    printf("apart by %.1e\n", apart);
    /* Roundings behind a gradient: the way to the loss and back, and the sum over the batch. */
    const double roundings = 3.0 * (KERNEL * KERNEL + FEATURES + KINDS) + BATCH * PIXELS;
    CHECK(apart <
          one[0] * rounding_bound(roundings) + rounding_adam(roundings, STEPS * RATE).largest);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_network_of_its_own_layers_trains_as_one_process_does),
        {0},
    };
    return check_all(cases, argc, argv);
}
