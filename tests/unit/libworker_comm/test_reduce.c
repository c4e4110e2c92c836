/* Half precision against plain arithmetic, exhaustively; reductions against loops. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/half.h"
#include "libworker/comm/reduce.h"

static double f16_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(mantissa, -24)
                                   : ldexp(mantissa + 1024, exponent - 25);
    return half & 0x8000 ? -value : value;
}

Test(half, every_f16_has_its_value_and_comes_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        double expected = f16_value((uint16_t)h), found = (double)f16_to_f32((uint16_t)h);
        if (isnan(expected)) {
            cr_assert(isnan(found) && isnan(f16_to_f32(f16_from_f32((float)found))));
            continue;
        }
        cr_assert(found == expected && signbit(found) == signbit(expected), "%x: %g", h, found);
        cr_assert_eq(f16_from_f32((float)found), h);
    }
}

/* Between each two neighbours: below the middle goes down, above goes up, the middle to even. */
Test(half, f16_rounds_to_nearest_even)
{
    for (uint16_t h = 0; h < 0x7c00; h++) {
        double low = f16_value(h), high = h + 1 == 0x7c00 ? 65536.0 : f16_value(h + 1);
        float middle = (float)((low + high) / 2);
        uint16_t even = h % 2 ? h + 1 : h;
        cr_assert_eq(f16_from_f32(middle), even, "%x", h);
        cr_assert_eq(f16_from_f32(nextafterf(middle, 0)), h, "%x", h);
        cr_assert_eq(f16_from_f32(nextafterf(middle, INFINITY)), h + 1, "%x", h);
        cr_assert_eq(f16_from_f32(-middle), even | 0x8000);
    }
    cr_assert_eq(f16_from_f32(1e30f), 0x7c00);
    cr_assert_eq(f16_from_f32(INFINITY), 0x7c00);
}

Test(half, bf16_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float value = bf16_to_f32((uint16_t)h);
        if (isnan(value)) {
            cr_assert(isnan(bf16_to_f32(bf16_from_f32(value))));
            continue;
        }
        cr_assert_eq(bf16_from_f32(value), h);
        if (isinf(value))
            continue;
        uint32_t bits = h << 16;
        cr_assert_eq(bf16_from_f32(f32_from_bits(bits | 0x7fff)), h);
        cr_assert_eq(bf16_from_f32(f32_from_bits(bits | 0x8001)), h + 1);
        cr_assert_eq(bf16_from_f32(f32_from_bits(bits | 0x8000)), h + h % 2);
    }
    cr_assert(isnan(bf16_to_f32(bf16_from_f32(f32_from_bits(0x7f800001)))));
}

enum { N = 9001, SOURCES = 5 };

static void run(enum wk_dtype dtype, enum wk_op op, int sources, const void *const *from, void *to)
{
    char *scratch = malloc(REDUCE_SCRATCH_BYTES);
    struct reduction reduction = {.dtype = dtype, .op = op, .sources = sources, .scratch = scratch};
    reduce(&reduction, from, to, N);
    free(scratch);
}

Test(reduce, f32_is_summed_from_the_left_in_place_at_any_address)
{
    static char space[SOURCES][N * 4 + 4];
    static float expected[N];
    const void *from[SOURCES];
    for (int s = 0; s < SOURCES; s++)
        from[s] = space[s] + (s == 2);
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int s = 0; s < SOURCES; s++) {
            float v = (float)(rand() - RAND_MAX / 2) * ldexpf(1, rand() % 20);
            memcpy((char *)from[s] + (size_t)i * 4, &v, 4);
            sum = s == 0 ? v : sum + v;
        }
        expected[i] = sum;
    }
    for (int place = 0; place < SOURCES; place++) {
        static char keep[SOURCES][N * 4 + 4];
        memcpy(keep, space, sizeof(space));
        run(WK_F32, WK_SUM, SOURCES, from, (char *)from[place]);
        cr_assert(memcmp(from[place], expected, sizeof(expected)) == 0, "in place of %d", place);
        memcpy(space, keep, sizeof(space));
    }
}

Test(reduce, nan_survives_max_and_min)
{
    static float a[N], b[N], c[N], out[N];
    const void *from[] = {a, b, c};
    a[1] = b[2] = c[3] = NAN;
    for (int op = WK_MAX; op <= WK_MIN; op++) {
        run(WK_F32, (enum wk_op)op, 3, from, out);
        for (int i = 0; i < N; i++)
            cr_assert((isnan(out[i]) != 0) == (i >= 1 && i <= 3), "op %d at %d", op, i);
    }
}

Test(reduce, integers_wrap_and_means_truncate_toward_zero)
{
    static int32_t a[N], b[N], out[N];
    const void *from[] = {a, b};
    a[0] = INT32_MAX, b[0] = 1, a[1] = -3, b[1] = 0, a[2] = 3;
    run(WK_I32, WK_SUM, 2, from, out);
    cr_assert_eq(out[0], INT32_MIN);
    run(WK_I32, WK_MEAN, 2, from, out);
    cr_assert_eq(out[1], -1);
    cr_assert_eq(out[2], 1);
}

Test(reduce, halves_are_rounded_once)
{
    /* 256 + 1 + 1 in bf16: rounding after each step would stay at 256. */
    static uint16_t a[N], b[N], out[N];
    const void *from[] = {a, b, b};
    for (int i = 0; i < N; i++) {
        a[i] = bf16_from_f32(256);
        b[i] = bf16_from_f32(1);
    }
    run(WK_BF16, WK_SUM, 3, from, out);
    for (int i = 0; i < N; i++)
        cr_assert_eq(bf16_to_f32(out[i]), 258);
}

static void run_finished(const struct finish *finish, size_t step, const float *const *from,
                         uint16_t *out)
{
    char *scratch = malloc(REDUCE_SCRATCH_BYTES);
    struct reduction reduction = {
        .dtype = WK_F32, .op = WK_SUM, .sources = 2, .scratch = scratch, .finish = *finish};
    for (size_t at = 0; at < N; at += step) {
        const void *sources[] = {from[0] + at, from[1] + at};
        reduce(&reduction, sources, out + at, N - at < step ? N - at : step);
    }
    free(scratch);
}

Test(reduce, what_is_learned_on_the_way_does_not_depend_on_the_pieces)
{
    static float a[N], b[N];
    static uint16_t whole[N], pieces[N];
    const float *from[] = {a, b};
    double plain = 0;
    for (int i = 0; i < N; i++) {
        a[i] = (float)(rand() - RAND_MAX / 2) * 1e-9f;
        b[i] = (float)(rand() - RAND_MAX / 2) * 1e-9f;
        double v = (double)((a[i] + b[i]) * 0.25f);
        plain += v * v;
    }
    struct tally one = {.at = 0};
    struct finish finish = {.active = true, .out = WK_BF16, .scale = 0.25, .tally = &one};
    run_finished(&finish, N, from, whole);
    cr_assert(fabs(tally_squares(&one) - plain) < 1e-12 * plain && !one.nonfinite);
    for (int i = 0; i < N; i++)
        cr_assert_eq(whole[i], bf16_from_f32((a[i] + b[i]) * 0.25f));
    static const size_t steps[] = {1, 7, 100, 2048, 2049};
    for (int s = 0; s < 5; s++) {
        struct tally many = {.at = 0};
        finish.tally = &many;
        run_finished(&finish, steps[s], from, pieces);
        cr_assert(memcmp(one.lanes, many.lanes, sizeof(one.lanes)) == 0, "step %zu", steps[s]);
        cr_assert(memcmp(whole, pieces, sizeof(whole)) == 0);
    }
    struct tally wild = {.at = 0};
    finish.tally = &wild;
    b[N - 1] = -INFINITY;
    run_finished(&finish, N, from, whole);
    cr_assert(wild.nonfinite);
}

Test(reduce, a_running_sum_goes_on_with_the_same_bits)
{
    static uint16_t in[4][N], at_once[N], in_turn[N];
    static float running[N];
    const void *all[] = {in[0], in[1], in[2], in[3]};
    char *scratch = malloc(REDUCE_SCRATCH_BYTES);
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < N; i++)
            in[s][i] = f16_from_f32((float)(rand() % 2000) * 0.01f);
    run(WK_F16, WK_MEAN, 4, all, at_once);
    struct reduction first = {
        .dtype = WK_F16, .op = WK_MEAN, .sources = 2, .open = true, .scratch = scratch};
    reduce(&first, all, running, N);
    const void *rest[] = {running, in[2], in[3]};
    struct reduction second = {.dtype = WK_F16,
                               .op = WK_MEAN,
                               .sources = 3,
                               .divisor = 4,
                               .partial = true,
                               .scratch = scratch};
    reduce(&second, rest, in_turn, N);
    cr_assert(memcmp(at_once, in_turn, sizeof(at_once)) == 0);
    free(scratch);
}
