#include "tests/numeric/train/own_device.h"

#include <worker/device.h>
#include <worker/parallel.h>

#include "libworker/device/device.h"
#include "libworker/nn/model.h"
#include "tests/lib/check.h"

enum { WEIGHT, BIAS, HEAD_BYTES = 64 };

struct pass_args {
    const struct kernel_table *kernels;
    const int32_t *tokens, *targets;
    int64_t rows;
    enum wk_dtype type[2]; /* of the parameters */
    const void *data[2];   /* NULL: not read by this launch */
    float *grad[2];        /* NULL: not written, or narrow */
    uint16_t *low_grad[2];
    float *apart;
    double *loss, divisor;
    float scale;
};

/* A row of a parameter in f32. */
static void read_row(const struct pass_args *a, int which, int64_t row, float ret[OWN_WIDTH])
{
    size_t first = (size_t)row * OWN_WIDTH;
    if (a->type[which] == WK_F32)
        memcpy(ret, (const float *)a->data[which] + first, OWN_WIDTH * sizeof(*ret));
    else
        a->kernels->widen(ret, a->type[which], (const uint16_t *)a->data[which] + first, OWN_WIDTH);
}

static void run_forward(struct queue *queue, const void *args)
{
    const struct pass_args *a = args;
    float weight[OWN_WIDTH], bias[OWN_WIDTH];
    double loss = 0;
    (void)queue;
    read_row(a, BIAS, 0, bias);
    for (int64_t i = 0; i < a->rows; i++) {
        read_row(a, WEIGHT, a->tokens[i], weight);
        for (int j = 0; j < OWN_WIDTH; j++) {
            float apart = weight[j] + bias[j] - (j == a->targets[i] ? 1.0f : 0.0f);
            a->apart[i * OWN_WIDTH + j] = apart;
            loss += (double)(apart * apart);
        }
    }
    *a->loss = loss / a->divisor;
}

/* Sum the slopes into the gradient that `row_of` tokens choose, or into one row. */
static void give(const struct pass_args *a, int which, const int32_t *row_of, int64_t rows)
{
    static float sums[OWN_WIDTH * OWN_WIDTH];
    memset(sums, 0, sizeof(sums));
    for (int64_t i = 0; i < a->rows; i++) {
        float *to = sums + (row_of ? row_of[i] * OWN_WIDTH : 0);
        for (int j = 0; j < OWN_WIDTH; j++)
            to[j] += a->scale * a->apart[i * OWN_WIDTH + j];
    }
    size_t count = (size_t)rows * OWN_WIDTH;
    if (a->low_grad[which])
        a->kernels->narrow(a->low_grad[which], a->type[which], sums, count);
    else
        a->kernels->add(a->grad[which], sums, count);
}

static void run_bias(struct queue *queue, const void *args)
{
    const struct pass_args *a = args;
    (void)queue;
    give(a, BIAS, NULL, 1);
}

static void run_weight(struct queue *queue, const void *args)
{
    const struct pass_args *a = args;
    (void)queue;
    give(a, WEIGHT, a->tokens, OWN_WIDTH);
}

void own_device_declare(struct wk_model *model)
{
    CHECK(wk_passes_on(model, "cuda") == 0 && wk_passes_on(model, "cpu") == 0);
    CHECK(wk_passes_on(model, "rehearsal") == 0 && wk_passes_on(model, "cuda") == 0);
}

static void make_room(struct own_device *own, struct wk_model *model, int64_t rows)
{
    size_t bytes = HEAD_BYTES + (size_t)rows * OWN_WIDTH * sizeof(float);
    if (bytes <= own->bytes)
        return;
    own_device_fini(own);
    own->queue = model->queue;
    own->bytes = bytes;
    CHECK(device_zeros_new(own->queue, bytes, &own->apart, NULL) == 0);
}

/* Where parameter `which` is read now. */
static void lead(struct pass_args *a, struct wk_model *model, int which)
{
    a->type[which] = wk_parameter_type(model, which);
    a->data[which] = a->type[which] == WK_F32 ? (const void *)wk_parameter_data(model, which)
                                              : wk_parameter_low(model, which);
    CHECK(a->data[which]);
}

static struct device_range range_of(const struct pass_args *a, int which, enum device_use use)
{
    size_t count = which == WEIGHT ? OWN_WIDTH * OWN_WIDTH : OWN_WIDTH;
    if (use == DEVICE_READ)
        return (struct device_range){a->data[which], count * wk_dtype_bytes(a->type[which]), use};
    if (a->low_grad[which])
        return (struct device_range){a->low_grad[which], count * sizeof(uint16_t), DEVICE_WRITE};
    return (struct device_range){a->grad[which], count * sizeof(float), DEVICE_UPDATE};
}

static void launch(struct queue *queue, const char *name, void (*run)(struct queue *, const void *),
                   const struct pass_args *a, const struct device_range more[2])
{
    size_t ids = (size_t)a->rows * sizeof(int32_t);
    size_t apart = (size_t)a->rows * OWN_WIDTH * sizeof(float);
    bool forward = run == run_forward;
    const struct device_range ranges[] = {
        {a->tokens, ids, DEVICE_READ},
        {a->targets, ids, DEVICE_READ},
        {a->apart, apart, forward ? DEVICE_WRITE : DEVICE_READ},
        {forward ? a->loss : NULL, forward ? sizeof(double) : 0, DEVICE_WRITE},
        more[0],
        more[1],
    };
    queue_launch(queue, &(struct device_launch){.name = name,
                                                .run = run,
                                                .args = a,
                                                .args_bytes = sizeof(*a),
                                                .ranges = ranges,
                                                .n_ranges = 6});
}

static void enter(const struct own_device *own, struct wk_model *model, enum wk_pass pass, int at)
{
    if (own->by_block)
        CHECK(wk_enter_block(model, pass, at) == 0);
}

/* The gradient of one parameter, and its announcement. */
static void backward(const struct own_device *own, struct wk_model *model, struct pass_args *a,
                     int which)
{
    enter(own, model, WK_BACKWARD, which);
    a->low_grad[which] = wk_parameter_low_grad(model, which);
    a->grad[which] = wk_parameter_grad(model, which);
    CHECK(a->low_grad[which] || a->grad[which]);
    const struct device_range none = {NULL, 0, DEVICE_READ};
    const struct device_range more[2] = {range_of(a, which, DEVICE_UPDATE), none};
    launch(model->queue, which == BIAS ? "own bias" : "own weight",
           which == BIAS ? run_bias : run_weight, a, more);
    CHECK(wk_grad_ready(model, which) == 0);
}

void own_device_passes(struct own_device *own, struct wk_model *model, const struct wk_batch *batch)
{
    struct wk_batch there;
    make_room(own, model, batch->samples * batch->length);
    CHECK(wk_send_batch(model, batch, &there) == 0);
    struct pass_args a = {.kernels = model->kernels,
                          .tokens = there.tokens,
                          .targets = there.targets,
                          .rows = there.samples * there.length,
                          .apart = (float *)(void *)((char *)own->apart + HEAD_BYTES),
                          .loss = own->apart,
                          .divisor = batch->denominator,
                          .scale = (float)(2 * wk_backward_scale(model) / batch->denominator)};
    for (int which = WEIGHT; which <= BIAS; which++) {
        enter(own, model, WK_FORWARD, which);
        lead(&a, model, which);
    }
    const struct device_range reads[2] = {range_of(&a, WEIGHT, DEVICE_READ),
                                          range_of(&a, BIAS, DEVICE_READ)};
    launch(model->queue, "own forward", run_forward, &a, reads);
    CHECK(wk_set_loss_at(model, a.loss) == 0);
    backward(own, model, &a, BIAS);
    backward(own, model, &a, WEIGHT);
}

void own_device_fini(struct own_device *own)
{
    if (!own->bytes)
        return;
    (void)queue_finish(own->queue, NULL);
    device_memory_free(queue_device(own->queue), own->apart, own->bytes);
    own->bytes = 0;
}
