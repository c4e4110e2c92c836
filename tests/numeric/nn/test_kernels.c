/* Every fast build gives what the plain kernels give, for sizes with and without vector remainders.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/blas.h"
#include "libworker/kernel/cpu/fast_math.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

static void check_gemm(const struct kernel_table *fast, const struct kernel_table *plain)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 5, 7}, {64, 48, 32}, {65, 257, 66}, {2, 300, 129}};
    float *a = fixture_normal("a", 200 * 200, 1), *b = fixture_normal("b", 320 * 320, 1);
    float *c = fixture_normal("c", 70 * 320, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) * 4; i++) {
        const int64_t *size = sizes[i / 4];
        struct kernel_gemm g = {.transpose_a = i & 1,
                                .transpose_b = i & 2,
                                .m = size[0],
                                .n = size[1],
                                .k = size[2],
                                .alpha = 0.5f,
                                .beta = (float)(i % 3) / 2,
                                .a = a,
                                .b = b,
                                .lda = 150,
                                .ldb = 310,
                                .ldc = 311};
        if (g.beta == 0) /* beta 0 must not read c */
            c[0] = NAN;
        struct kernel_gemm p = g;
        g.c = fixture_copy(c, 70 * 320);
        p.c = fixture_copy(c, 70 * 320);
        fast->gemm(&g);
        plain->gemm(&p);
        fixture_same(g.c, p.c, 70 * 320, "gemm", fast);
        free(p.c);
        c[0] = 1;
    }
    free(a);
    free(b);
    free(c);
}

Test(kernels, gemm)
{
    fixture_every_build(check_gemm);
    const char *core = blas_core();
    cr_log_info("OpenBLAS kernels: %s", core ? core : "none, own product");
}

static void check_bias(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 7, COLS = 37, COUNT = ROWS * COLS };
    float *x = fixture_normal("x", COUNT, 1), *bias = fixture_normal("bias", COLS, 1);
    float *ours = fixture_copy(x, COUNT), *theirs = fixture_copy(x, COUNT);
    fast->bias_fill(ours, bias, ROWS, COLS);
    plain->bias_fill(theirs, bias, ROWS, COLS);
    fixture_same(ours, theirs, COUNT, "bias_fill", fast);
    free(theirs);
    ours = fixture_copy(bias, COLS);
    theirs = fixture_copy(bias, COLS);
    fast->bias_backward(ours, x, ROWS, COLS);
    plain->bias_backward(theirs, x, ROWS, COLS);
    fixture_same(ours, theirs, COLS, "bias_backward", fast);
    free(theirs);
    free(x);
    free(bias);
}

Test(kernels, bias)
{
    fixture_every_build(check_bias);
}

static void check_flat(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 1003 };
    float *x = fixture_normal("x", COUNT, 1), *y = fixture_normal("y", COUNT, 1);
    float *ours = fixture_copy(y, COUNT), *theirs = fixture_copy(y, COUNT);
    fast->add(ours, x, COUNT);
    plain->add(theirs, x, COUNT);
    fixture_same(ours, theirs, COUNT, "add", fast);
    ours = fixture_copy(x, COUNT);
    memcpy(theirs, x, COUNT * sizeof(*x));
    fast->scale(ours, -0.3f, COUNT);
    plain->scale(theirs, -0.3f, COUNT);
    fixture_same(ours, theirs, COUNT, "scale", fast);
    ours = fixture_copy(x, COUNT);
    fast->fill(ours, 2, COUNT);
    plain->fill(theirs, 2, COUNT);
    fixture_same(ours, theirs, COUNT, "fill", fast);
    double squares = plain->sum_squares(x, COUNT);
    cr_expect_float_eq(fast->sum_squares(x, COUNT), squares,
                       rounding_apart(ROUNDING_F64, COUNT) * squares);
    free(theirs);
    free(x);
    free(y);
}

Test(kernels, flat)
{
    fixture_every_build(check_flat);
}

static void check_norm(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 5, WIDTH = 83, COUNT = ROWS * WIDTH };
    float *x = fixture_normal("x", COUNT, 3), *w = fixture_normal("w", WIDTH, 1);
    float *b = fixture_normal("b", WIDTH, 1), *dy = fixture_normal("dy", COUNT, 1);
    float *out[2], *dx[2], *dw[2], *db[2], stats[2][2 * ROWS];
    for (int i = 0; i < 2; i++) {
        const struct kernel_table *k = i ? plain : fast;
        struct kernel_norm norm = {.rows = ROWS,
                                   .width = WIDTH,
                                   .epsilon = 1e-5f,
                                   .x = x,
                                   .weight = w,
                                   .bias = b,
                                   .mean = stats[i],
                                   .rstd = stats[i] + ROWS};
        out[i] = fixture_copy(x, COUNT);
        dx[i] = fixture_copy(x, COUNT);
        dw[i] = fixture_copy(w, WIDTH);
        db[i] = fixture_copy(b, WIDTH);
        k->norm_forward(&norm, out[i]);
        k->norm_backward(&norm, dy, dx[i], dw[i], db[i]);
    }
    fixture_same(out[0], out[1], COUNT, "norm_forward", fast);
    fixture_same(dx[0], dx[1], COUNT, "norm_backward's dx", fast);
    fixture_same(dw[0], dw[1], WIDTH, "norm_backward's dweight", fast);
    fixture_same(db[0], db[1], WIDTH, "norm_backward's dbias", fast);
    fixture_same(fixture_copy(stats[0], 2 * ROWS), stats[1], 2 * ROWS,
                 "norm_forward's mean and rstd", fast);
    free(out[1]);
    free(dx[1]);
    free(dw[1]);
    free(db[1]);
    free(x);
    free(w);
    free(b);
    free(dy);
}

Test(kernels, norm)
{
    fixture_every_build(check_norm);
}

/* Over the whole range where GELU is not trivial, each element relative to itself, tails included.
 */
static void check_gelu(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 4001, GELU_ROUNDINGS = 8 }; /* the cubic, a share, the exponential's ends */
    float x[COUNT], ones[COUNT], ours[COUNT], theirs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - 2000) / 50;
        ones[i] = 1;
    }
    fast->gelu_forward(ours, x, COUNT);
    plain->gelu_forward(theirs, x, COUNT);
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(ours[i], theirs[i], rounding_bound(GELU_ROUNDINGS) * fabs(x[i]) + 1e-30,
                           "gelu(%g) of %s: %g, not %g", x[i], fast->name, ours[i], theirs[i]);
    fast->gelu_backward(ones, x, ones, COUNT); /* in place */
    for (int i = 0; i < COUNT; i++)
        ours[i] = 1;
    plain->gelu_backward(theirs, x, ours, COUNT);
    fixture_same(fixture_copy(ones, COUNT), theirs, COUNT, "gelu_backward", fast);
}

Test(kernels, gelu)
{
    fixture_every_build(check_gelu);
}

static void check_softmax(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { LENGTH = 53, COUNT = LENGTH * LENGTH };
    struct kernel_causal causal = {
        .first = 20, .rows = 30, .cols = 50, .ld = LENGTH, .scale = 0.3f};
    float *scores = fixture_normal("scores", COUNT, 10), *dp = fixture_normal("dp", COUNT, 1);
    float *ours = fixture_copy(scores, COUNT), *theirs = fixture_copy(scores, COUNT);
    fast->softmax_causal(&causal, ours);
    plain->softmax_causal(&causal, theirs);
    cr_expect_eq(theirs[21], 0);
    cr_expect_eq(theirs[50], scores[50]); /* right of cols nothing is written */
    fixture_same(fixture_copy(ours, COUNT), theirs, COUNT, "softmax_causal", fast);
    free(ours);
    ours = fixture_copy(dp, COUNT);
    float *grads = fixture_copy(dp, COUNT);
    fast->softmax_causal_backward(&causal, ours, theirs);
    plain->softmax_causal_backward(&causal, grads, theirs);
    fixture_same(ours, grads, COUNT, "softmax_causal_backward", fast);
    free(grads);
    free(theirs);
    free(scores);
    free(dp);
}

Test(kernels, causal_softmax)
{
    fixture_every_build(check_softmax);
}

static void check_loss(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 9, VOCAB = 131, COUNT = ROWS * VOCAB };
    static const int32_t targets[ROWS] = {0, 130, 5, 5, -100, 127, 128, 1, 77};
    float *logits = fixture_normal("logits", COUNT, 5);
    float *ours = fixture_copy(logits, COUNT), *theirs = fixture_copy(logits, COUNT);
    for (int smooth = 0; smooth < 2; smooth++) {
        struct kernel_entropy e = {ROWS, VOCAB, targets, smooth ? 0.1f : 0.0f};
        memcpy(ours, logits, COUNT * sizeof(float));
        memcpy(theirs, logits, COUNT * sizeof(float));
        double loss = fast->cross_entropy_forward(&e, ours);
        double expected = plain->cross_entropy_forward(&e, theirs);
        cr_expect_float_eq(loss, expected, rounding_bound(VOCAB) * expected);
        fixture_same(fixture_copy(ours, COUNT), theirs, COUNT, "cross_entropy_forward", fast);
        fast->cross_entropy_backward(&e, ours, 0.25f);
        plain->cross_entropy_backward(&e, theirs, 0.25f);
        fixture_same(fixture_copy(ours, COUNT), theirs, COUNT, "cross_entropy_backward", fast);
        cr_expect_eq(ours[4 * VOCAB], 0); /* left out */
    }
    free(ours);
    free(theirs);
    free(logits);
}

Test(kernels, cross_entropy)
{
    fixture_every_build(check_loss);
}

static void check_embedding(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 8, LENGTH = 4, WIDTH = 19, VOCAB = 6 };
    static const int32_t tokens[ROWS] = {0, 5, 5, 1, 5, 2, 3, 0};
    static const int64_t size[3] = {ROWS, LENGTH, WIDTH};
    float *table = fixture_normal("table", VOCAB * WIDTH, 1);
    float *places = fixture_normal("places", LENGTH * WIDTH, 1);
    float *ours = calloc(ROWS * WIDTH, sizeof(float)),
          *theirs = calloc(ROWS * WIDTH, sizeof(float));
    fast->embedding_forward(ours, tokens, table, places, size);
    plain->embedding_forward(theirs, tokens, table, places, size);
    fixture_same(ours, theirs, ROWS * WIDTH, "embedding_forward", fast);
    float *dtable[2] = {fixture_copy(table, VOCAB * WIDTH), fixture_copy(table, VOCAB * WIDTH)};
    float *dplaces[2] = {fixture_copy(places, LENGTH * WIDTH),
                         fixture_copy(places, LENGTH * WIDTH)};
    fast->embedding_backward(dtable[0], dplaces[0], tokens, theirs, size);
    plain->embedding_backward(dtable[1], dplaces[1], tokens, theirs, size);
    fixture_same(dtable[0], dtable[1], VOCAB * WIDTH, "embedding_backward's table", fast);
    fixture_same(dplaces[0], dplaces[1], LENGTH * WIDTH, "embedding_backward's positions", fast);
    free(dtable[1]);
    free(dplaces[1]);
    free(theirs);
    free(table);
    free(places);
}

Test(kernels, embedding)
{
    fixture_every_build(check_embedding);
}

/* One score far above the others, wherever it stands, takes everything. */
static void check_peak(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 37 };
    (void)plain;
    struct kernel_causal causal = {
        .first = COUNT - 1, .rows = 1, .cols = COUNT, .ld = COUNT, .scale = 1};
    for (int peak = 0; peak < COUNT; peak++) {
        float scores[COUNT] = {0};
        scores[peak] = 1e6f;
        fast->softmax_causal(&causal, scores);
        for (int i = 0; i < COUNT; i++)
            cr_expect_float_eq(scores[i], i == peak, rounding_bound(COUNT),
                               "%s: peak %d, [%d] = %g", fast->name, peak, i, scores[i]);
    }
}

Test(kernels, softmax_survives_huge_scores)
{
    fixture_every_build(check_peak);
}

Test(kernels, fast_exp_is_exp)
{
    for (double x = -86.9; x < 86.9; x += 1.0 / 512) {
        double expected = exp((double)(float)x), off = (double)fast_exp((float)x) - expected;
        cr_assert_lt(fabs(off), 3e-7 * expected, "exp(%g): %g off", x, off / expected);
    }
    cr_expect_gt(fast_exp(-1000), 0);
    cr_expect(isfinite(fast_exp(1000)));
    cr_expect(isnan(fast_exp(NAN)));
}

static void check_nan(const struct kernel_table *fast, const struct kernel_table *plain)
{
    (void)plain;
    float x[20] = {[7] = NAN}, out[20];
    struct kernel_causal causal = {.first = 10, .rows = 1, .cols = 11, .ld = 20, .scale = 1};
    static const int32_t target = 3;
    fast->gelu_forward(out, x, 20);
    cr_expect(isnan(out[7]), "gelu of %s hides a NaN", fast->name);
    cr_expect(isnan(fast->sum_squares(x, 20)));
    memcpy(out, x, sizeof(x));
    fast->softmax_causal(&causal, out);
    cr_expect(isnan(out[0]), "softmax of %s hides a NaN", fast->name);
    memcpy(out, x, sizeof(x));
    struct kernel_entropy entropy = {1, 20, &target, 0};
    cr_expect(isnan(fast->cross_entropy_forward(&entropy, out)), "the loss of %s hides a NaN",
              fast->name);
}

Test(kernels, nan_is_not_hidden)
{
    fixture_every_build(check_nan);
}
