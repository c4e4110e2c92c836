/* Reductions against loops. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/reduce.h"
#include "libworker/precision/half.h"

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
        a[i] = bf16_of_f32(256);
        b[i] = bf16_of_f32(1);
    }
    run(WK_BF16, WK_SUM, 3, from, out);
    for (int i = 0; i < N; i++)
        cr_assert_eq(f32_of_bf16(out[i]), 258);
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
    struct finish finish = {.active = true,
                            .out = WK_BF16,
                            .scale = 0.25,
                            .tally = &one,
                            .squares = true,
                            .nonfinite = true};
    run_finished(&finish, N, from, whole);
    cr_assert(fabs(tally_squares(&one) - plain) < 1e-12 * plain && !one.nonfinite);
    for (int i = 0; i < N; i++)
        cr_assert_eq(whole[i], bf16_of_f32((a[i] + b[i]) * 0.25f));
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
    /* Only what is asked for. */
    struct tally flag = {.at = 0}, sum = {.at = 0};
    finish.tally = &flag;
    finish.squares = false;
    run_finished(&finish, N, from, whole);
    cr_assert(flag.nonfinite && flag.at == 0 && tally_squares(&flag) == 0);
    finish.tally = &sum;
    finish.squares = true;
    finish.nonfinite = false;
    run_finished(&finish, N, from, whole);
    cr_assert(!sum.nonfinite && isinf(tally_squares(&sum)));
}

Test(reduce, a_running_sum_goes_on_with_the_same_bits)
{
    static uint16_t in[4][N], at_once[N], in_turn[N];
    static float running[N];
    const void *all[] = {in[0], in[1], in[2], in[3]};
    char *scratch = malloc(REDUCE_SCRATCH_BYTES);
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < N; i++)
            in[s][i] = f16_of_f32((float)(rand() % 2000) * 0.01f);
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

/* Every type, reduction and finish: both places get what one place gets, in place of the sources.
 */
static void check_both(struct reduction reduction, const void *bytes)
{
    static _Alignas(8) char from[3][N * 8], expected[N * 8];
    const void *sources[] = {from[0], from[1], from[2]};
    size_t out_bytes =
        N * wk_dtype_bytes(reduction.finish.active ? reduction.finish.out : reduction.dtype);
    struct tally one = {.at = 0}, two = {.at = 0};
    for (int s = 0; s < 3; s++)
        memcpy(from[s], (const char *)bytes + s * 16, sizeof(from[s]));
    reduction.finish.tally = reduction.finish.tally ? &one : NULL;
    reduce(&reduction, sources, expected, N);
    reduction.finish.tally = reduction.finish.tally ? &two : NULL;
    bool converts = reduction.finish.active && reduction.finish.out != reduction.dtype;
    static char apart[2][N * 8];
    char *dst = converts ? apart[0] : from[0], *also = converts ? apart[1] : from[1];
    reduce_to_both(&reduction, sources, dst, also, N);
    cr_assert(memcmp(dst, expected, out_bytes) == 0, "type %d op %d of %d, at the first place",
              reduction.dtype, reduction.op, reduction.sources);
    cr_assert(memcmp(also, expected, out_bytes) == 0, "type %d op %d of %d, at the second place",
              reduction.dtype, reduction.op, reduction.sources);
    cr_assert(memcmp(one.lanes, two.lanes, sizeof(one.lanes)) == 0);
}

Test(reduce, both_places_get_the_same)
{
    static _Alignas(8) char bytes[N * 8 + 32];
    char *scratch = malloc(REDUCE_SCRATCH_BYTES);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i % 4 == 3 ? 0x3f : rand());
    for (int type = WK_F32; type <= WK_U8; type++)
        for (int op = WK_SUM; op <= WK_MIN; op++)
            for (int sources = 1; sources <= 3; sources++) {
                struct reduction plain = {.dtype = (enum wk_dtype)type,
                                          .op = (enum wk_op)op,
                                          .sources = sources,
                                          .scratch = scratch};
                struct reduction finished = plain;
                finished.finish = (struct finish){
                    .active = true, .scale = 0.3, .squares = true, .nonfinite = true};
                check_both(plain, bytes);
                for (int out = WK_F32; out <= WK_BF16; out++) {
                    struct tally wanted;
                    finished.finish.out = (enum wk_dtype)out;
                    if (!finish_valid(plain.dtype, (enum wk_dtype)out))
                        continue;
                    finished.finish.tally = NULL;
                    check_both(finished, bytes);
                    finished.finish.tally = &wanted;
                    check_both(finished, bytes);
                }
            }
    free(scratch);
}

/* Multiplying by the inverse of a power of two is dividing, subnormals included. */
Test(reduce, means_are_divided_sums)
{
    static float in[8][N], out[N];
    const void *from[8];
    for (int s = 0; s < 8; s++) {
        from[s] = in[s];
        for (int i = 0; i < N; i++)
            in[s][i] = ldexpf((float)(rand() - RAND_MAX / 2), i % 2 ? -170 : -20);
    }
    for (int sources = 1; sources <= 8; sources++) {
        run(WK_F32, WK_MEAN, sources, from, out);
        for (int i = 0; i < N; i++) {
            float sum = in[0][i];
            for (int s = 1; s < sources; s++)
                sum += in[s][i];
            cr_assert_eq(out[i], sum / (float)sources, "%d sources, at %d", sources, i);
        }
    }
}
