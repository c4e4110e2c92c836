/* What a pass and a strategy enqueue beside operations, on a GPU's kernels and on the CPU: elements
 * have the same bits, sums in double are within their roundings. */
#include <math.h>

#include "libworker/device/cpu.h"
#include "libworker/graph/launches.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/elements.h"
#include "libworker/parallel/launches.h"
#include "libworker/parallel/narrow.h"
#include "libworker/precision/half.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/cuda/plain_gpu.h"

enum { MOST = 40000, BESIDE = 8, UNITS = 4 };

/* The arrays of one place. What is beside the range of a test stays. */
struct arrays {
    float to[MOST + 2 * BESIDE], from[MOST + 2 * BESIDE];
    uint16_t low[MOST + 2 * BESIDE];
    double sum;
};

struct place {
    struct wk_model model;
    struct arrays *arrays;
};

static struct arrays gpu_arrays, cpu_arrays;
static struct place gpu = {.arrays = &gpu_arrays}, cpu = {.arrays = &cpu_arrays};

static const int64_t counts[] = {0, 1, 7, 8, 1003, MOST - 3};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]), OFFS = 3 };

static float number_at(size_t i)
{
    static const float odd[] = {0,      -0.0f,    INFINITY, -INFINITY, NAN,
                                1e-42f, 65519.9f, 3.4e38f,  1e-8f};
    uint64_t x = (i + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 31;
    x *= 0x94d049bb133111ebu;
    if (i % 11 == 5)
        return odd[i / 11 % (sizeof(odd) / sizeof(odd[0]))];
    return (float)((double)(x >> 11) * 0x1p-52 - 1);
}

/* Without what is not finite. */
static float tame_at(size_t i)
{
    float x = number_at(i);
    return isfinite(x) && fabsf(x) < 1e6f ? x : 0.25f;
}

static void arrays_fill(struct arrays *a, bool tame)
{
    for (size_t i = 0; i < MOST + 2 * BESIDE; i++) {
        a->to[i] = tame ? tame_at(i) : number_at(i);
        a->from[i] = tame ? tame_at(i + 77) : number_at(i + 77);
        a->low[i] = bf16_of_f32(number_at(i + 11));
    }
    a->sum = 0.5;
}

static void begin(bool tame)
{
    arrays_fill(&gpu_arrays, tame);
    arrays_fill(&cpu_arrays, tame);
    gpu.model.queue = plain_gpu_open();
    CHECK(cpu_open(&cpu.model.queue, NULL) == 0);
    gpu.model.kernels = cpu.model.kernels = kernel_reference();
}

static void end(void)
{
    plain_gpu_close(gpu.model.queue);
    cpu_close(cpu.model.queue);
}

static bool same_float(float x, float y)
{
    return bits_of_f32(x) == bits_of_f32(y) || (isnan(x) && isnan(y));
}

/* A narrow NaN has the bits that its converter gives it. */
static bool same_low(uint16_t x, uint16_t y, enum wk_dtype type)
{
    bool low = type == WK_BF16;
    return x == y || (isnan(low ? f32_of_bf16(x) : f32_of_f16(x)) &&
                      isnan(low ? f32_of_bf16(y) : f32_of_f16(y)));
}

static void check_arrays(enum wk_dtype type)
{
    for (size_t i = 0; i < MOST + 2 * BESIDE; i++) {
        CHECK(same_float(gpu_arrays.to[i], cpu_arrays.to[i]));
        CHECK(same_low(gpu_arrays.low[i], cpu_arrays.low[i], type));
    }
}

/* Each on both places, for every count and alignment. */
static void each(void (*run)(struct place *, size_t at, int64_t count, enum wk_dtype type),
                 enum wk_dtype type)
{
    for (int c = 0; c < COUNTS; c++) {
        for (size_t off = 0; off < OFFS; off++) {
            begin(false);
            run(&gpu, BESIDE + off, counts[c] - (counts[c] > OFFS ? OFFS : 0), type);
            run(&cpu, BESIDE + off, counts[c] - (counts[c] > OFFS ? OFFS : 0), type);
            check_arrays(type);
            end();
        }
    }
}

static void scale_part(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    (void)type;
    elements_scale(&p->model, p->arrays->to + at, 0.7f, (size_t)count);
}

static void add_part(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    (void)type;
    elements_add(&p->model, p->arrays->to + at, p->arrays->from + at + 1, (size_t)count);
}

static void narrow_part(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    elements_narrow(&p->model, type, p->arrays->low + at, p->arrays->from + at, (size_t)count);
}

static void widen_part(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    elements_widen(&p->model, type, p->arrays->to + at, p->arrays->low + at, (size_t)count);
}

static void add_narrow_part(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    static float wide[ELEMENTS_PIECE];
    struct elements_pieces how = {type, wide};
    elements_add_narrow(&p->model, &how, p->arrays->low + at, p->arrays->from + at, (size_t)count);
}

static void elements_have_the_cpus_bits(void)
{
    static const enum wk_dtype types[] = {WK_BF16, WK_F16};
    each(scale_part, WK_BF16);
    each(add_part, WK_BF16);
    for (int i = 0; i < 2; i++) {
        each(narrow_part, types[i]);
        each(widen_part, types[i]);
        each(add_narrow_part, types[i]);
    }
}

/* The first elements by chance, those after `trained` to nearest. */
static void narrow_model(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    int64_t steps = 3;
    struct narrowing n = {.kernels = kernel_reference(),
                          .type = type,
                          .stochastic = type == WK_BF16,
                          .trained = 500,
                          .seed = 9,
                          .steps = &steps};
    struct narrow_source source = {p->arrays->from + at, (size_t)count, 100};
    narrow_write(&n, p->model.queue, p->arrays->low + at, source);
}

static void models_are_narrowed_by_the_same_chance(void)
{
    each(narrow_model, WK_BF16);
    each(narrow_model, WK_F16);
}

static void launch(struct place *p, const char *name, void (*run)(struct queue *, const void *),
                   const struct row_args *row)
{
    queue_launch(
        p->model.queue,
        &(struct device_launch){.name = name, .run = run, .args = row, .args_bytes = sizeof(*row)});
}

static struct row_args row_of(struct place *p, size_t at, int64_t count)
{
    return (struct row_args){.kernels = kernel_reference(),
                             .from = p->arrays->from + at,
                             .to = p->arrays->to + at,
                             .sum = &p->arrays->sum,
                             .count = count,
                             .seed = 0.3f};
}

static void seed_rows(struct place *p, size_t at, int64_t count, enum wk_dtype type)
{
    struct row_args first = row_of(p, at, count / 2), all = row_of(p, at, count);
    (void)type;
    launch(p, GRAPH_SEED, launch_seed, &first);
    launch(p, GRAPH_ADD_SEED, launch_add_seed, &all);
    launch(p, GRAPH_ADD, launch_add, &all);
}

static void gradients_begin_with_the_cpus_bits(void)
{
    each(seed_rows, WK_BF16);
}

static void losses_are_summed_in_double(void)
{
    for (int c = 0; c < COUNTS; c++) {
        double size = 1;
        begin(true);
        for (int64_t i = 0; i < counts[c]; i++)
            size += fabs((double)cpu_arrays.from[1 + i]);
        struct row_args rows[2] = {row_of(&gpu, 1, counts[c]), row_of(&cpu, 1, counts[c])};
        for (int twice = 0; twice < 2; twice++) {
            launch(&gpu, GRAPH_SUM_LOSS, launch_sum_loss, &rows[0]);
            launch(&cpu, GRAPH_SUM_LOSS, launch_sum_loss, &rows[1]);
        }
        CHECK(fabs(gpu_arrays.sum - cpu_arrays.sum) <=
              rounding_apart(ROUNDING_F64, (double)counts[c] + 1) * size);
        end();
    }
}

static void losses_are_totalled(void)
{
    double sums[3] = {3, -0.25, 1e-3}, to[2] = {7, 8};
    begin(true);
    for (int i = 0; i < 2; i++) {
        struct total_args args = {sums, &to[i], 3, {0.5, 2, 1}, {3, 7, 11}};
        queue_launch(i ? cpu.model.queue : gpu.model.queue,
                     &(struct device_launch){.name = GRAPH_TOTAL,
                                             .run = launch_total,
                                             .args = &args,
                                             .args_bytes = sizeof(args)});
    }
    CHECK(to[0] == to[1] && to[0] != 7);
    end();
}

/* A small first unit before a large one: a row moves by less than its size. */
static const size_t unit_rows[UNITS] = {3, 9000, 1, 600};

/* Rows of this rank of two, moved by the host. */
static void compact_expected(const struct shard_unit *units, size_t part, float *arena)
{
    for (int i = 0; i < UNITS; i++)
        memmove(arena + units[i].shard, arena + units[i].place + units[i].row * part,
                units[i].row * sizeof(*arena));
}

static void rows_move_together_where_they_overlap(void)
{
    for (size_t part = 0; part < 2; part++) {
        struct shard_unit units[UNITS] = {{0}};
        struct shard_plan plan = {.world = 2, .n_units = UNITS, .units = units};
        for (int i = 0; i < UNITS; i++) {
            units[i].row = unit_rows[i];
            units[i].place = i ? units[i - 1].place + 2 * unit_rows[i - 1] : 0;
            units[i].shard = i ? units[i - 1].shard + unit_rows[i - 1] : 0;
        }
        begin(true);
        struct compact_args args = {&plan, part, sizeof(float), (char *)gpu_arrays.to};
        queue_launch(gpu.model.queue, &(struct device_launch){.name = PARALLEL_COMPACT,
                                                              .args = &args,
                                                              .args_bytes = sizeof(args)});
        compact_expected(units, part, cpu_arrays.to);
        check_arrays(WK_BF16);
        end();
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(elements_have_the_cpus_bits),
        CHECK_CASE(models_are_narrowed_by_the_same_chance),
        CHECK_CASE(gradients_begin_with_the_cpus_bits),
        CHECK_CASE(losses_are_summed_in_double),
        CHECK_CASE(losses_are_totalled),
        CHECK_CASE(rows_move_together_where_they_overlap),
        {0},
    };
    return check_all(cases, argc, argv);
}
