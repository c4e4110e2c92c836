/* As test_kernels.c, for what optimizers, Llama, convolutions and low precision add. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

static void update(const struct kernel_table *k, int kind, float *arrays[4], size_t count,
                   uint16_t *low)
{
    struct kernel_update u = {.params = arrays[0],
                              .grads = arrays[1],
                              .state = {arrays[2], arrays[3]},
                              .low = low,
                              .type = kind % 2 ? WK_F16 : WK_BF16,
                              .count = count};
    struct kernel_adamw adamw = {.beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .epsilon = 1e-8f,
                                 .step_size = 0.01f,
                                 .inv_root2 = 2,
                                 .keep = 0.999f,
                                 .grad_scale = 0.5f,
                                 .l2 = kind == 5 ? 0.1f : 0.0f};
    struct kernel_lion lion = {0.9f, 0.99f, 0.01f, 0.999f, 0.5f};
    struct kernel_sgd sgd = {.rate = 0.1f,
                             .momentum = kind == 1 ? 0.0f : 0.9f,
                             .weight_decay = 0.1f,
                             .grad_scale = 0.5f,
                             .nesterov = kind == 3,
                             .first = kind == 4};
    if (kind == 6)
        k->lion(&lion, &u);
    else if (kind == 0 || kind == 5)
        k->adamw(&adamw, &u);
    else
        k->sgd(&sgd, &u);
}

static void check_update(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 509 };
    for (int kind = 0; kind < 7; kind++) {
        float *ours[4], *theirs[4];
        for (int i = 0; i < 4; i++) {
            static const char *const names[4] = {"params", "grads", "m", "v"};
            ours[i] = fixture_normal(names[i], COUNT, 1);
            for (int j = 0; i == 3 && j < COUNT; j++)
                ours[i][j] = fabsf(ours[i][j]);
            theirs[i] = fixture_copy(ours[i], COUNT);
        }
        update(fast, kind, ours, COUNT, NULL);
        update(plain, kind, theirs, COUNT, NULL);
        for (int i = 0; i < 4; i++) {
            fixture_same(ours[i], theirs[i], COUNT, kind ? "sgd" : "adamw", fast);
            free(theirs[i]);
        }
    }
}

Test(kernels, optimizer_updates)
{
    fixture_every_build(check_update);
}

/* The copy is the parameters after the update, wherever it lies in its lines and however long it
 * is, and nothing beside it is touched.
 */
static void check_copy(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 203, LINE = 32, ROOM = COUNT + 2 * LINE, UNTOUCHED = 0x5a5a };
    _Alignas(64) uint16_t low[ROOM];
    for (int kind = 0; kind < 7; kind++) {
        size_t at = (size_t)(kind * 5) % LINE, count = COUNT - (size_t)kind * 30;
        float *arrays[4];
        uint16_t expected[COUNT];
        for (int i = 0; i < 4; i++)
            arrays[i] = fixture_normal("update", COUNT, 1);
        for (int i = 0; i < COUNT; i++)
            arrays[3][i] = fabsf(arrays[3][i]);
        for (int i = 0; i < ROOM; i++)
            low[i] = UNTOUCHED;
        update(fast, kind, arrays, count, low + at);
        plain->narrow(expected, kind % 2 ? WK_F16 : WK_BF16, arrays[0], count);
        cr_expect_eq(memcmp(low + at, expected, count * sizeof(*low)), 0, "copy %d of %s", kind,
                     fast->name);
        for (size_t i = 0; i < ROOM; i++)
            cr_expect(low[i] == UNTOUCHED || (i >= at && i < at + count), "%s at %zu", fast->name,
                      i);
        fast->narrow_stream(low + at, WK_BF16, arrays[1], count);
        plain->narrow(expected, WK_BF16, arrays[1], count);
        cr_expect_eq(memcmp(low + at, expected, count * sizeof(*low)), 0);
        for (int i = 0; i < 4; i++)
            free(arrays[i]);
    }
}

Test(kernels, updates_write_the_copy)
{
    fixture_every_build(check_copy);
}

static void check_factored(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 13, COLS = 37, COUNT = ROWS * COLS };
    float *grads = fixture_normal("grads", COUNT, 1), *factors = fixture_normal("f", COLS, 1);
    for (int matrix = 0; matrix < 2; matrix++) {
        float *row[2], *col[2], *params[2];
        double squares[2];
        for (int i = 0; i < 2; i++) {
            const struct kernel_table *k = i ? plain : fast;
            row[i] = fixture_normal("row", ROWS, 1);
            col[i] = fixture_normal("col", COLS, 1);
            params[i] = fixture_normal("params", COUNT, 1);
            struct kernel_factored f = {.rows = matrix ? ROWS : 1,
                                        .cols = COLS,
                                        .grads = grads,
                                        .row = matrix ? row[i] : NULL,
                                        .col = col[i],
                                        .grad_scale = 0.5f};
            k->factored_moments(&f, 0.9f, 1e-3f);
            squares[i] = k->factored_squares(&f, factors, factors);
            k->factored_apply(&f, factors, factors, &(struct kernel_blend){0.99f, 0.1f}, params[i]);
        }
        fixture_same(row[0], row[1], ROWS, "factored_moments' rows", fast);
        fixture_same(col[0], col[1], COLS, "factored_moments' columns", fast);
        fixture_same(params[0], params[1], COUNT, "factored_apply", fast);
        cr_expect_float_eq(squares[0], squares[1], rounding_bound(ROWS + COLS) * squares[1]);
        free(row[1]);
        free(col[1]);
        free(params[1]);
    }
    free(grads);
    free(factors);
}

Test(kernels, factored_moments)
{
    fixture_every_build(check_factored);
}

static void check_narrow(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 1003 };
    static const enum wk_dtype types[2] = {WK_BF16, WK_F16};
    float *x = fixture_normal("x", COUNT, 3), back[2][COUNT];
    uint16_t low[2][COUNT];
    x[5] = INFINITY;
    x[6] = 1e9f;
    x[7] = 1e-7f;
    for (int t = 0; t < 2; t++) {
        fast->narrow(low[0], types[t], x, COUNT);
        plain->narrow(low[1], types[t], x, COUNT);
        cr_expect_eq(memcmp(low[0], low[1], sizeof(low[0])), 0, "narrow of %s", fast->name);
        fast->widen(back[0], types[t], low[1], COUNT);
        plain->widen(back[1], types[t], low[1], COUNT);
        cr_expect_eq(memcmp(back[0], back[1], sizeof(back[0])), 0, "widen of %s", fast->name);
    }
    float *mixed = fixture_copy(x + 8, COUNT - 8), *expected = fixture_copy(x + 8, COUNT - 8);
    struct kernel_blend b = {0.3f, -2};
    fast->blend(mixed, &b, mixed, back[1] + 8, COUNT - 8);
    plain->blend(expected, &b, expected, back[1] + 8, COUNT - 8);
    fixture_same(mixed, expected, COUNT - 8, "blend", fast);
    free(expected);
    free(x);
}

static void check_dropout(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { COUNT = 100003 };
    float *ours = malloc(COUNT * sizeof(float)), *theirs = malloc(COUNT * sizeof(float));
    double sum = 0;
    for (int i = 0; i < COUNT; i++)
        ours[i] = theirs[i] = 1;
    fast->dropout(ours, COUNT, 5, 0.75f);
    plain->dropout(theirs, COUNT, 5, 0.75f);
    for (int i = 0; i < COUNT; i++)
        sum += (double)ours[i];
    cr_expect_float_eq(sum / COUNT, 1, 0.01); /* five deviations */
    fixture_same(ours, theirs, COUNT, "dropout", fast);
    free(theirs);
}

Test(kernels, dropout_keeps_the_mean)
{
    fixture_every_build(check_dropout);
}

Test(kernels, narrow_widen_and_blend)
{
    fixture_every_build(check_narrow);
}

static void check_rms(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 5, WIDTH = 83, COUNT = ROWS * WIDTH };
    float *x = fixture_normal("x", COUNT, 3), *w = fixture_normal("w", WIDTH, 1);
    float *dy = fixture_normal("dy", COUNT, 1), *out[2], *dx[2], *dw[2], rstd[2][ROWS];
    for (int i = 0; i < 2; i++) {
        const struct kernel_table *k = i ? plain : fast;
        struct kernel_norm norm = {
            .rows = ROWS, .width = WIDTH, .epsilon = 1e-5f, .x = x, .weight = w, .rstd = rstd[i]};
        out[i] = fixture_copy(x, COUNT);
        dx[i] = fixture_copy(x, COUNT);
        dw[i] = fixture_copy(w, WIDTH);
        k->rms_forward(&norm, out[i]);
        k->rms_backward(&norm, dy, dx[i], dw[i]);
    }
    fixture_same(out[0], out[1], COUNT, "rms_forward", fast);
    fixture_same(dx[0], dx[1], COUNT, "rms_backward's dx", fast);
    fixture_same(dw[0], dw[1], WIDTH, "rms_backward's dweight", fast);
    free(out[1]);
    free(dx[1]);
    free(dw[1]);
    free(x);
    free(w);
    free(dy);
}

Test(kernels, rms_norm)
{
    fixture_every_build(check_rms);
}

static void check_llama_parts(const struct kernel_table *fast, const struct kernel_table *plain)
{
    enum { ROWS = 6, LENGTH = 3, HEADS = 2, SIZE = 18, STRIDE = 50, INNER = 37 };
    float *x = fixture_normal("x", ROWS * 2 * INNER, 2),
          *dy = fixture_normal("dy", ROWS * INNER, 1);
    float *angles = fixture_normal("angles", LENGTH * SIZE, 1);
    struct kernel_rope rope = {
        ROWS, LENGTH, HEADS, SIZE, STRIDE, angles, angles + LENGTH * SIZE / 2, false};
    for (int back = 0; back < 2; back++) {
        float *ours = fixture_copy(x, ROWS * STRIDE), *theirs = fixture_copy(x, ROWS * STRIDE);
        rope.back = back;
        fast->rope(&rope, ours);
        plain->rope(&rope, theirs);
        cr_expect_eq(ours[HEADS * SIZE], x[HEADS * SIZE]); /* values are not turned */
        fixture_same(ours, theirs, ROWS * STRIDE, "rope", fast);
        free(theirs);
    }
    float *ours = fixture_copy(x, ROWS * 2 * INNER), *theirs = fixture_copy(x, ROWS * 2 * INNER);
    fast->swiglu_forward(ours, x, ROWS, INNER);
    plain->swiglu_forward(theirs, x, ROWS, INNER);
    fixture_same(fixture_copy(ours, ROWS * INNER), theirs, ROWS * INNER, "swiglu_forward", fast);
    fast->swiglu_backward(ours, x, dy, (const int64_t[]){ROWS, INNER});
    plain->swiglu_backward(theirs, x, dy, (const int64_t[]){ROWS, INNER});
    fixture_same(ours, theirs, ROWS * 2 * INNER, "swiglu_backward", fast);
    free(theirs);
    free(x);
    free(dy);
    free(angles);
}

Test(kernels, rotary_positions_and_gated_units)
{
    fixture_every_build(check_llama_parts);
}

static void check_windows(const struct kernel_table *fast, const struct kernel_table *plain)
{
    static const struct kernel_windows shapes[] = {{2, 7, 6, 3, 1, 0, 20}, {3, 5, 5, 3, 2, 1, 12},
                                                   {1, 4, 4, 1, 1, 0, 16}, {2, 6, 5, 4, 3, 3, 13},
                                                   {2, 5, 6, 3, 1, 1, 31}, {2, 2, 4, 5, 1, 2, 8},
                                                   {1, 3, 1, 5, 1, 2, 3},  {1, 4, 2, 7, 1, 3, 9}};
    enum { IMAGE = 3 * 49, ROWS = 40 * 40 };
    float *image = fixture_normal("image", IMAGE, 1), *rows = fixture_normal("rows", ROWS, 1);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        float *ours = fixture_copy(rows, ROWS), *theirs = fixture_copy(rows, ROWS);
        fast->windows_forward(&shapes[i], ours, image);
        plain->windows_forward(&shapes[i], theirs, image);
        fixture_same(ours, theirs, ROWS, "windows_forward", fast);
        ours = fixture_copy(image, IMAGE);
        memcpy(theirs, image, IMAGE * sizeof(float));
        fast->windows_backward(&shapes[i], ours, rows);
        plain->windows_backward(&shapes[i], theirs, rows);
        fixture_same(ours, theirs, IMAGE, "windows_backward", fast);
        free(theirs);
    }
    free(image);
    free(rows);
}

Test(kernels, windows_of_an_image)
{
    fixture_every_build(check_windows);
}

/* Sizes on both sides of the tiles and of few rows, strides wider than rows; bf16 by the library
 * where there is one. */
static void check_gemm_low(const struct kernel_table *fast, const struct kernel_table *plain)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},      {32, 70, 33},
                                       {65, 66, 31}, {150, 20, 300}, {9, 530, 6}};
    enum { SIDE = 540, COUNT = SIDE * SIDE };
    float *x = fixture_normal("x", COUNT, 1), *c = fixture_normal("c", COUNT, 1);
    uint16_t *a = malloc(COUNT * 2), *b = malloc(COUNT * 2);
    struct kernel_room *room = fast->room_new(), *other = plain->room_new();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) * 16; i++) {
        const int64_t *size = sizes[i / 16];
        struct kernel_gemm_low g = {.transpose_a = i & 1,
                                    .transpose_b = i & 2,
                                    .add = i & 4,
                                    .type = i & 8 ? WK_F16 : WK_BF16,
                                    .m = size[0],
                                    .n = size[1],
                                    .k = size[2],
                                    .a = a,
                                    .b = b,
                                    .lda = 310,
                                    .ldb = 535,
                                    .ldc = 533};
        plain->narrow(a, g.type, x, COUNT);
        plain->narrow(b, g.type, x + 1, COUNT - 1);
        struct kernel_gemm_low p = g;
        g.c = fixture_copy(c, COUNT);
        p.c = fixture_copy(c, COUNT);
        fast->gemm_low(room, &g);
        plain->gemm_low(other, &p);
        fixture_same(g.c, p.c, COUNT, "gemm_low", fast);
        free(p.c);
    }
    fast->room_free(room);
    fast->room_free(NULL);
    plain->room_free(other);
    free(x);
    free(c);
    free(a);
    free(b);
}

Test(kernels, products_of_rounded_factors)
{
    fixture_every_build(check_gemm_low);
}
