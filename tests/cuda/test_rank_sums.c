/* Sums in rank order: the device's kernel, emulated, has the bits of the host's launch, and both
 * those of wk_all_reduce's rule: in float, in order, rounded once. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "libworker/cuda/kernels/rank_sums.h"
#include "libworker/device/cpu.h"
#include "libworker/parallel/rank_sums.h"
#include "libworker/precision/half.h"
#include "tests/lib/check.h"

enum { WORLD_MAX = 9, COUNT_MAX = 3000 };

static const int64_t counts[] = {1, 3, 8, 31, 64, 257, COUNT_MAX};
static const int worlds[] = {1, 2, 3, WORLD_MAX};

static struct rng rng;

/* Numbers of many sizes, so that another order has other bits. */
static float number(void)
{
    float value = (float)(rng_double(&rng) - 0.5);
    return rng_below(&rng, 3) ? value : value * 4096;
}

static uint16_t half_of(enum wk_dtype type, float value)
{
    return type == WK_BF16 ? bf16_of_f32(value) : f16_of_f32(value);
}

static float float_of(enum wk_dtype type, const void *at, int64_t i)
{
    if (type == WK_F32)
        return ((const float *)at)[i];
    uint16_t half = ((const uint16_t *)at)[i];
    return type == WK_BF16 ? f32_of_bf16(half) : f32_of_f16(half);
}

static void fill(void *rows, enum wk_dtype type, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (type == WK_F32)
            ((float *)rows)[i] = number();
        else
            ((uint16_t *)rows)[i] = half_of(type, number());
    }
}

/* The rule. */
static bool is_sum(const struct rank_sums_args *a, int64_t i)
{
    float sum = float_of(a->type, a->rows, i);
    for (int rank = 1; rank < a->world; rank++)
        sum += float_of(a->type, a->rows, rank * (int64_t)a->count + i);
    float rounded = a->out_type == WK_F32
                        ? sum
                        : float_of(a->out_type, &(uint16_t){half_of(a->out_type, sum)}, 0);
    float has = float_of(a->out_type, a->out, i);
    return memcmp(&has, &rounded, sizeof(has)) == 0;
}

static void compare(struct queue *queue, struct rank_sums_args a)
{
    _Alignas(64) static float rows[WORLD_MAX * COUNT_MAX], host[COUNT_MAX], device[COUNT_MAX];
    size_t bytes = a.count * wk_dtype_bytes(a.out_type);
    fill(rows, a.type, a.world * (int64_t)a.count);
    a.rows = rows;
    a.out = host;
    rank_sums(queue, &a);
    const struct gpu_rank_sums sums = {
        {rows, a.type}, {device, a.out_type}, (int64_t)a.count, a.world};
    gpu_sum_ranks(&sums, NULL);
    CHECK(memcmp(host, device, bytes) == 0);
    for (size_t i = 0; i < a.count; i++)
        CHECK(is_sum(&a, (int64_t)i));
}

static void floats_have_the_bits_of_the_host(void)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    struct queue *queue;
    CHECK(cpu_open(&queue, NULL) == 0);
    for (int in = 0; in < 3; in++)
        for (int out = 0; out < 3; out++)
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
                for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++)
                    compare(queue, (struct rank_sums_args){.count = (size_t)counts[c],
                                                           .world = worlds[w],
                                                           .type = types[in],
                                                           .out_type = types[out]});
    cpu_close(queue);
}

static void numbers_have_them(void)
{
    struct queue *queue;
    double rows[WORLD_MAX * 40], host[40], device[40];
    CHECK(cpu_open(&queue, NULL) == 0);
    for (int as_float = 0; as_float < 2; as_float++)
        for (int count = 1; count <= 40; count += 13) {
            for (int i = 0; i < WORLD_MAX * count; i++)
                rows[i] = (double)number() / 3;
            rank_sums(queue, &(struct rank_sums_args){rows, host, (size_t)count, WORLD_MAX, WK_F64,
                                                      WK_F64, as_float});
            const struct gpu_rank_numbers sums = {rows, device, count, WORLD_MAX, as_float};
            gpu_sum_rank_numbers(&sums, NULL);
            CHECK(memcmp(host, device, (size_t)count * sizeof(*host)) == 0);
            CHECK(as_float == (host[0] == (double)(float)host[0]));
        }
    cpu_close(queue);
}

static void a_stop_is_noted(void)
{
    struct queue *queue;
    _Atomic int stop = 0;
    double host = 1, device = 1;
    CHECK(cpu_open(&queue, NULL) == 0);
    for (int stops = 0; stops < 2; stops++) {
        atomic_store(&stop, stops);
        note_stop(queue, &(struct note_stop_args){&stop, &host});
        gpu_note_stop((const int *)(const void *)&stop, &device, NULL);
        CHECK(host == 1 - stops && device == 1 - stops);
    }
    cpu_close(queue);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(floats_have_the_bits_of_the_host),
        CHECK_CASE(numbers_have_them),
        CHECK_CASE(a_stop_is_noted),
        {0},
    };
    rng_seed(&rng, 1);
    return check_all(cases, argc, argv);
}
