#include "tests/cuda/update_counts.h"

#include <string.h>

#include "libworker/estimate/traffic.h"
#include "libworker/step/context.h"
#include "tests/cuda/fake/fake.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"

enum {
    VOCAB = 128,
    WIDTH = 128,
    INNER = 1024,      /* a pass over the largest matrix is more than the bound of its update */
    INNER_UNSEEN = 32, /* without bytes to compare */
    LENGTH = 4,
    TEXT = 400,
    LAUNCHES_MAX = 64,
    KERNELS_MAX = 512,
    /* That one kernel touches beside the launch's: partial sums, roots, a matrix of scratch. */
    PIECES = 3,
};

static struct {
    struct counted launches[LAUNCHES_MAX];
    int n_launches;
    struct fake_touched kernels[KERNELS_MAX];
    int n_kernels;
} seen;

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static struct wk_model *make_model(void)
{
    struct wk_model *model = NULL;
    struct wk_graph *g = wk_graph_new("counted");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, shape);
    struct wk_tensor *x = wk_graph_input(g, "tokens", WK_I32, shape);
    wk_graph_max_length(g, LENGTH);
    x = wk_layer_linear(wk_layer_embedding(x, "embed", VOCAB, WIDTH), "up",
                        fake_can_watch() ? INNER : INNER_UNSEEN);
    x = wk_layer_linear(wk_layer_linear(x, "rests", WIDTH), "head", VOCAB);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

static struct wk_optimizer *make_optimizer(int kind)
{
    static const struct wk_group rests = {.pattern = "rests*"};
    struct wk_adamw_options adam = {3e-3, 0.9, 0.95, 1e-8, 0.1};
    struct wk_optimizer *o = NULL;
    int rc = -1;
    if (kind < 2)
        rc = wk_sgd_new(&(struct wk_sgd_options){1e-2, kind ? 0.9 : 0, false, 0.1}, &o);
    else if (kind < 4)
        rc = kind == 2 ? wk_adam_new(&adam, &o) : wk_adamw_new(&adam, &o);
    else if (kind == 4)
        rc = wk_lion_new(&(struct wk_lion_options){1e-3, 0.9, 0.99, 0.1}, &o);
    else if (kind == 5)
        rc = wk_adafactor_new(&(struct wk_adafactor_options){1e-2, 0.8, 1e-30, 1e-3, 1, true, 0},
                              &o);
    else
        rc = wk_muon_new(&(struct wk_muon_options){3e-3, 0.95, true, 0.1, adam}, &o);
    CHECK(rc == 0 && wk_optimizer_group(o, &rests) == 0);
    return o;
}

static void add_launch(void *arg, const struct counted *counted)
{
    (void)arg;
    CHECK(seen.n_launches < LAUNCHES_MAX);
    seen.launches[seen.n_launches++] = *counted;
}

static void add_kernel(void *arg, const struct fake_touched *touched)
{
    (void)arg;
    CHECK(seen.n_kernels < KERNELS_MAX);
    seen.kernels[seen.n_kernels++] = *touched;
}

static void count(const struct wk_model *model, int kind, enum wk_dtype compute,
                  const struct device *device)
{
    struct wk_optimizer *optimizer = make_optimizer(kind);
    struct traffic traffic = {.n = 0};
    struct error err = {0};
    const struct traffic_update update = {.model = model,
                                          .optimizer = optimizer,
                                          .compute = compute,
                                          .device = device,
                                          .each = add_launch};
    seen.n_launches = 0;
    CHECK(traffic_add_update(&update, &traffic, &err) == 0);
    double launches = 0, bytes = 0;
    for (int i = 0; i < traffic.n; i++) {
        CHECK(traffic.rows[i].part == TRAFFIC_UPDATE);
        launches += traffic.rows[i].launches;
        bytes += traffic.rows[i].read + traffic.rows[i].written;
    }
    CHECK(launches == traffic.together.launches);
    CHECK(bytes == traffic.together.read + traffic.together.written);
    wk_optimizer_free(optimizer);
}

static bool is_near(double measured, double counted, double bound)
{
    return measured >= counted - bound && measured <= counted + bound;
}

/* A range of bytes is in at most two pages more than it fills. */
static void compare(const struct counted *launch, const struct fake_touched *kernels)
{
    const struct device_traffic *t = &launch->traffic;
    double read = 0, written = 0;
    double bound = 2.0 * FAKE_PAGE * t->launches * PIECES + 2.0 * FAKE_PAGE * launch->ranges;
    for (int i = 0; i < t->launches; i++) {
        read += (double)kernels[i].read;
        written += (double)kernels[i].written;
    }
    bool same = is_near(read, t->read, bound) && is_near(written, t->written, bound);
    if (!same)
        fprintf(stderr, "%s: counted %d kernels, %.0f + %.0f bytes; %.0f + %.0f; bound %.0f\n",
                launch->name, t->launches, t->read, t->written, read, written, bound);
    CHECK(same);
}

/* All but the first one, which adds the loss of a pass at its end. */
static void compare_all(long works)
{
    int kernel = 0;
    for (int i = 1; i < seen.n_launches; i++) {
        const struct counted *launch = &seen.launches[i];
        CHECK(kernel + launch->traffic.launches <= works);
        if (fake_can_watch())
            compare(launch, &seen.kernels[kernel]);
        kernel += launch->traffic.launches;
    }
    CHECK(kernel == works);
    CHECK(!fake_can_watch() || kernel == seen.n_kernels);
}

/* A window, of which the end is watched. */
static void step(struct wk_loader *loader, struct wk_model *model, struct wk_optimizer *optimizer)
{
    struct wk_batch batch;
    CHECK(wk_next(loader, &batch));
    CHECK(wk_forward(model, &batch, NULL) == 0 && wk_backward(model) == 0);
    CHECK(queue_finish(model->queue, NULL) == 0);
    long before = fake_counted().works;
    seen.n_kernels = 0;
    if (fake_can_watch())
        fake_watch(add_kernel, NULL);
    CHECK(wk_step(optimizer) == 0);
    CHECK(queue_finish(model->queue, NULL) == 0);
    if (fake_can_watch())
        fake_watch(NULL, NULL);
    compare_all(fake_counted().works - before);
}

static const char *name_of(enum wk_dtype compute)
{
    return compute == WK_F32 ? "no" : compute == WK_BF16 ? "bf16" : "fp16";
}

void update_counts_are_measured(int kind, enum wk_dtype compute)
{
    static const struct environment empty = {.get = nothing};
    const struct wk_setting settings[] = {
        {"mixed_precision", name_of(compute)}, {"clip_grad_norm", "1"}, {"compile", "off"}};
    const struct wk_options options = {.settings = settings, .n_settings = 3};
    const struct fake_options fake = gpu_options((uint64_t)kind);
    struct device *device = gpu_new(&fake);
    const struct context_seams seams = {.environment = &empty, .quiet = true, .device = device};
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    char text[TEXT];
    for (int i = 0; i < TEXT; i++)
        text[i] = (char)('a' + i % 7);
    struct wk_model *model = make_model();
    struct wk_optimizer *optimizer = make_optimizer(kind);
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_source_bytes(ctx, text, TEXT, &source) == 0);
    const struct wk_loader_options loads = {.source = source, .length = LENGTH, .batch = 2};
    CHECK(wk_loader_new(ctx, &loads, &loader) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(loader), WK_OBJECT(optimizer)) == 0);
    count(model, kind, compute, device);
    step(loader, model, optimizer);
    CHECK(wk_status(ctx) == 0 && wk_close(ctx) == 0);
    wk_optimizer_free(optimizer);
    wk_loader_free(loader);
    wk_source_free(source);
    wk_model_free(model);
    device_free(device);
}
