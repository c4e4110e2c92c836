#include "libworker/parallel/rank_sums.h"

#include "common/base/assert.h"
#include "libworker/device/device.h"
#include "libworker/precision/half.h"

static float read_float(const void *row, enum wk_dtype type, size_t i)
{
    if (type == WK_F16)
        return f32_of_f16(((const uint16_t *)row)[i]);
    if (type == WK_BF16)
        return f32_of_bf16(((const uint16_t *)row)[i]);
    return ((const float *)row)[i];
}

static void write_float(void *out, enum wk_dtype type, size_t i, float value)
{
    if (type == WK_F16)
        ((uint16_t *)out)[i] = f16_of_f32(value);
    else if (type == WK_BF16)
        ((uint16_t *)out)[i] = bf16_of_f32(value);
    else
        ((float *)out)[i] = value;
}

static const void *row_at(const struct rank_sums_args *a, int rank)
{
    return (const char *)a->rows + (size_t)rank * a->count * wk_dtype_bytes(a->type);
}

static void sum_floats(const struct rank_sums_args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        float sum = read_float(a->rows, a->type, i);
        for (int rank = 1; rank < a->world; rank++)
            sum += read_float(row_at(a, rank), a->type, i);
        write_float(a->out, a->out_type, i, sum);
    }
}

static double narrowed(const struct rank_sums_args *a, double value)
{
    return a->as_float ? (double)(float)value : value;
}

static void sum_doubles(const struct rank_sums_args *a)
{
    double *out = a->out;
    for (size_t i = 0; i < a->count; i++) {
        double sum = narrowed(a, ((const double *)a->rows)[i]);
        for (int rank = 1; rank < a->world; rank++)
            sum = narrowed(a, sum + narrowed(a, ((const double *)row_at(a, rank))[i]));
        out[i] = sum;
    }
}

static void run_sums(struct queue *queue, const void *args)
{
    const struct rank_sums_args *a = args;
    (void)queue;
    if (a->type == WK_F64)
        sum_doubles(a);
    else
        sum_floats(a);
}

void rank_sums(struct queue *queue, const struct rank_sums_args *args)
{
    size_t in_bytes = (size_t)args->world * args->count * wk_dtype_bytes(args->type);
    const struct device_range ranges[] = {
        {args->rows, in_bytes, DEVICE_READ},
        {args->out, args->count * wk_dtype_bytes(args->out_type), DEVICE_WRITE},
    };
    insist((args->type == WK_F64) == (args->out_type == WK_F64));
    queue_launch(queue, &(struct device_launch){.name = PARALLEL_SUM_RANKS,
                                                .run = run_sums,
                                                .args = args,
                                                .args_bytes = sizeof(*args),
                                                .ranges = ranges,
                                                .n_ranges = 2});
}

static void run_note(struct queue *queue, const void *args)
{
    const struct note_stop_args *a = args;
    (void)queue;
    if (atomic_load(a->stop))
        *a->finite = 0;
}

void note_stop(struct queue *queue, const struct note_stop_args *args)
{
    const struct device_range range = {args->finite, sizeof(*args->finite), DEVICE_UPDATE};
    queue_launch(queue, &(struct device_launch){.name = PARALLEL_NOTE_STOP,
                                                .run = run_note,
                                                .args = args,
                                                .args_bytes = sizeof(*args),
                                                .ranges = &range,
                                                .n_ranges = 1});
}
