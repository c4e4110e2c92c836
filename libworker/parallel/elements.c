#include "libworker/parallel/elements.h"

#include "libworker/device/device.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/launches.h"

static void run_scale(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    (void)queue;
    a->kernels->scale(a->to, a->factor, a->count);
}

static void run_add(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    (void)queue;
    a->kernels->add(a->to, a->from, a->count);
}

static void run_narrow(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    (void)queue;
    a->kernels->narrow(a->low, a->how.type, a->from, a->count);
}

static void run_widen(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    (void)queue;
    a->kernels->widen(a->to, a->how.type, a->low, a->count);
}

static void run_add_narrow(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    const struct kernel_table *k = a->kernels;
    enum wk_dtype type = a->how.type;
    float *wide = a->how.wide;
    (void)queue;
    for (size_t done = 0, n; done < a->count; done += n) {
        n = a->count - done < ELEMENTS_PIECE ? a->count - done : ELEMENTS_PIECE;
        k->widen(wide, type, a->low + done, n);
        k->add(wide, a->from + done, n);
        k->narrow(a->low + done, type, wide, n);
    }
}

static void run_add_widened(struct queue *queue, const void *args)
{
    const struct elements_args *a = args;
    float *wide = a->how.wide;
    (void)queue;
    for (size_t done = 0, n; done < a->count; done += n) {
        n = a->count - done < ELEMENTS_PIECE ? a->count - done : ELEMENTS_PIECE;
        a->kernels->widen(wide, a->how.type, a->low + done, n);
        a->kernels->add(a->to + done, wide, n);
    }
}

static void enqueue(const struct wk_model *model, const char *name,
                    void (*run)(struct queue *, const void *), const struct elements_args *args,
                    const struct device_range ranges[3])
{
    queue_launch(model->queue, &(struct device_launch){.name = name,
                                                       .run = run,
                                                       .args = args,
                                                       .args_bytes = sizeof(*args),
                                                       .ranges = ranges,
                                                       .n_ranges = 3});
}

void elements_scale(const struct wk_model *model, float *data, float factor, size_t count)
{
    const struct elements_args args = {
        .kernels = model->kernels, .to = data, .factor = factor, .count = count};
    const struct device_range ranges[3] = {{data, count * sizeof(*data), DEVICE_UPDATE}};
    if (factor != 1)
        enqueue(model, PARALLEL_SCALE, run_scale, &args, ranges);
}

void elements_add(const struct wk_model *model, float *to, const float *from, size_t count)
{
    const struct elements_args args = {
        .kernels = model->kernels, .to = to, .from = from, .count = count};
    const struct device_range ranges[3] = {{to, count * sizeof(*to), DEVICE_UPDATE},
                                           {from, count * sizeof(*from), DEVICE_READ}};
    enqueue(model, PARALLEL_ADD, run_add, &args, ranges);
}

void elements_narrow(const struct wk_model *model, enum wk_dtype type, uint16_t *low,
                     const float *from, size_t count)
{
    const struct elements_args args = {
        .kernels = model->kernels, .how.type = type, .low = low, .from = from, .count = count};
    const struct device_range ranges[3] = {{low, count * sizeof(*low), DEVICE_WRITE},
                                           {from, count * sizeof(*from), DEVICE_READ}};
    enqueue(model, PARALLEL_NARROW, run_narrow, &args, ranges);
}

void elements_widen(const struct wk_model *model, enum wk_dtype type, float *to, uint16_t *low,
                    size_t count)
{
    const struct elements_args args = {
        .kernels = model->kernels, .how.type = type, .to = to, .low = low, .count = count};
    const struct device_range ranges[3] = {{to, count * sizeof(*to), DEVICE_WRITE},
                                           {low, count * sizeof(*low), DEVICE_READ}};
    enqueue(model, PARALLEL_WIDEN, run_widen, &args, ranges);
}

void elements_add_narrow(const struct wk_model *model, const struct elements_pieces *how,
                         uint16_t *low, const float *from, size_t count)
{
    size_t piece = count < ELEMENTS_PIECE ? count : ELEMENTS_PIECE;
    const struct elements_args args = {
        .kernels = model->kernels, .how = *how, .low = low, .from = from, .count = count};
    const struct device_range ranges[3] = {{low, count * sizeof(*low), DEVICE_UPDATE},
                                           {from, count * sizeof(*from), DEVICE_READ},
                                           {how->wide, piece * sizeof(float), DEVICE_SCRATCH}};
    enqueue(model, PARALLEL_ADD_NARROW, run_add_narrow, &args, ranges);
}

void elements_add_widened(const struct wk_model *model, const struct elements_pieces *how,
                          float *to, uint16_t *low, size_t count)
{
    size_t piece = count < ELEMENTS_PIECE ? count : ELEMENTS_PIECE;
    const struct elements_args args = {
        .kernels = model->kernels, .how = *how, .to = to, .low = low, .count = count};
    const struct device_range ranges[3] = {{to, count * sizeof(*to), DEVICE_UPDATE},
                                           {low, count * sizeof(*low), DEVICE_READ},
                                           {how->wide, piece * sizeof(float), DEVICE_SCRATCH}};
    enqueue(model, PARALLEL_ADD_WIDENED, run_add_widened, &args, ranges);
}
