/* Each optimizer against its paper, written here once more in double, element by element. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "tests/lib/rounding.h"

enum { ROWS = 6, COLS = 10, MATRIX = ROWS * COLS, VECTOR = 11, COUNT = 2 * MATRIX + VECTOR };
enum { STEPS = 30, UPDATE = 8 }; /* roundings of one element's update */

/* A wide matrix, a vector, a tall matrix. */
static const struct param params[3] = {
    {.name = "wide", .dims = 2, .shape = {ROWS, COLS}, .count = MATRIX, .decay = true},
    {.name = "v", .dims = 1, .shape = {VECTOR}, .count = VECTOR, .offset = MATRIX},
    {.name = "tall",
     .dims = 2,
     .shape = {COLS, ROWS},
     .count = MATRIX,
     .offset = MATRIX + VECTOR,
     .decay = true},
};

static const double SCALE = 0.5; /* of the gradients, as clipping would ask for */

static float pattern(int i, int salt)
{
    uint32_t hash = (uint32_t)i * 2654435761u ^ (uint32_t)salt * 40503u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    return (float)(hash % 20011) / 10005.5f - 1;
}

/* What a paper does to all tensors in step t, gradients g already scaled. */
typedef void paper_fn(double x[COUNT], const double g[COUNT], double state[2][COUNT], int t);

/* Elements are of size 1; an update has that many roundings. Takes the optimizer. */
static void follow(struct wk_optimizer *o, paper_fn *paper, double roundings)
{
    static double x[COUNT], g[COUNT], state[2][COUNT];
    float ours[COUNT], grads[COUNT];
    cr_assert_eq(optimizer_bind(o, params, 3, 0, COUNT, NULL), 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = (double)(ours[i] = pattern(i, 0));
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < COUNT; i++) {
            grads[i] = pattern(i, t) + 0.3f * pattern(i, 1000);
            g[i] = (double)grads[i] * SCALE;
        }
        paper(x, g, state, t);
        cr_assert_eq(optimizer_step(o, ours, grads, (float)SCALE, NULL), 0);
    }
    for (int i = 0; i < COUNT; i++)
        cr_expect_float_eq(ours[i], x[i], rounding_bound(STEPS * roundings) * fmax(1, fabs(x[i])),
                           "%s [%d] %.8g, not %.8g", o->ops->name, i, (double)ours[i], x[i]);
    wk_optimizer_free(o);
}

static bool in_matrix(int i)
{
    return i < MATRIX || i >= MATRIX + VECTOR;
}

/* Kingma and Ba 2015, algorithm 1, with decay as a gradient. */
static void adam(double x[COUNT], const double g[COUNT], double state[2][COUNT], int t)
{
    double *m = state[0], *v = state[1];
    for (int i = 0; i < COUNT; i++) {
        double gradient = g[i] + (in_matrix(i) ? 0.1 * x[i] : 0);
        m[i] = 0.9 * m[i] + 0.1 * gradient;
        v[i] = 0.99 * v[i] + 0.01 * gradient * gradient;
        x[i] -= 0.01 * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.99, t))) + 1e-8);
    }
}

Test(papers, adam)
{
    struct wk_optimizer *o;
    struct wk_adamw_options options = {0.01, 0.9, 0.99, 1e-8, 0.1};
    cr_assert_eq(wk_adam_new(&options, &o), 0);
    follow(o, adam, UPDATE);
}

/* Chen et al. 2023, algorithm 2. */
static void lion(double x[COUNT], const double g[COUNT], double state[2][COUNT], int t)
{
    (void)t;
    double *m = state[0];
    for (int i = 0; i < COUNT; i++) {
        double c = 0.9 * m[i] + 0.1 * g[i];
        double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
        x[i] -= 0.01 * (sign + (in_matrix(i) ? 0.3 * x[i] : 0));
        m[i] = 0.99 * m[i] + 0.01 * g[i];
    }
}

Test(papers, lion)
{
    struct wk_optimizer *o;
    struct wk_lion_options options = {0.01, 0.9, 0.99, 0.3};
    cr_assert_eq(wk_lion_new(&options, &o), 0);
    follow(o, lion, UPDATE);
}

static double root_mean(const double *x, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i] / count;
    return sqrt(sum);
}

/* One tensor of Shazeer and Stern 2018, algorithm 4 with 6's decay, clipping and relative step; the
 * moment is the outer product of the sums over rows and columns over the sum of all.
 */
static void adafactor_tensor(double *x, const double *g, double *r, double *c, const int size[3])
{
    int rows = size[0], cols = size[1], count = rows * cols;
    double decay = 1 - pow(size[2], -0.8), u[COUNT], total = 0;
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < cols; j++)
            sum += g[i * cols + j] * g[i * cols + j] + 1e-30;
        r[i] = decay * r[i] + (1 - decay) * sum;
        total += r[i];
    }
    for (int j = 0; j < cols; j++) {
        double sum = 0;
        for (int i = 0; i < rows; i++)
            sum += g[i * cols + j] * g[i * cols + j] + 1e-30;
        c[j] = decay * c[j] + (1 - decay) * sum;
    }
    for (int i = 0; i < count; i++)
        u[i] = g[i] / sqrt(r[i / cols] * c[i % cols] / total);
    double clipped = fmax(1, root_mean(u, count) / 1.0);
    double rate = 0.02 * fmax(1e-3, root_mean(x, count));
    for (int i = 0; i < count; i++)
        x[i] -= rate * u[i] / clipped;
}

static void adafactor(double x[COUNT], const double g[COUNT], double state[2][COUNT], int t)
{
    double *r = state[0], *c = state[1];
    adafactor_tensor(x, g, r, c, (const int[]){ROWS, COLS, t});
    adafactor_tensor(x + MATRIX, g + MATRIX, r + 20, c + 20, (const int[]){1, VECTOR, t});
    adafactor_tensor(x + MATRIX + VECTOR, g + MATRIX + VECTOR, r + 40, c + 40,
                     (const int[]){COLS, ROWS, t});
}

Test(papers, adafactor)
{
    struct wk_optimizer *o;
    struct wk_adafactor_options options = {.rate = 0.02,
                                           .decay_power = 0.8,
                                           .epsilon1 = 1e-30,
                                           .epsilon2 = 1e-3,
                                           .clip = 1,
                                           .relative = true};
    cr_assert_eq(wk_adafactor_new(&options, &o), 0);
    follow(o, adafactor, UPDATE + 2 * MATRIX);
}

/* y = a x + b (x x^T) x + c (x x^T)^2 x, the polynomial of Jordan et al. 2024, as plain sums. */
static void polynomial(double *x, int rows, int cols)
{
    static const double a = 3.4445, b = -4.7750, c = 2.0315;
    double s[COLS][COLS] = {{0}}, first[MATRIX] = {0}, second[MATRIX] = {0};
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < rows; k++)
            for (int j = 0; j < cols; j++)
                s[i][k] += x[i * cols + j] * x[k * cols + j];
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < rows; k++)
            for (int j = 0; j < cols; j++)
                first[i * cols + j] += s[i][k] * x[k * cols + j];
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < rows; k++)
            for (int j = 0; j < cols; j++)
                second[i * cols + j] += s[i][k] * first[k * cols + j];
    for (int i = 0; i < rows * cols; i++)
        x[i] = a * x[i] + b * first[i] + c * second[i];
}

static void muon_matrix(double *x, const double *g, double *m, int rows, int cols)
{
    double u[MATRIX], norm = 0;
    for (int i = 0; i < MATRIX; i++) {
        m[i] = 0.95 * m[i] + 0.05 * g[i];
        u[i] = 0.05 * g[i] + 0.95 * m[i];
        norm += u[i] * u[i];
    }
    for (int i = 0; i < MATRIX; i++)
        u[i] /= sqrt(norm) + 1e-7;
    for (int step = 0; step < 5; step++)
        polynomial(u, rows, cols);
    for (int i = 0; i < MATRIX; i++)
        x[i] -= 0.01 * (0.2 * sqrt(COLS) * u[i] + 0.1 * x[i]);
}

static void muon(double x[COUNT], const double g[COUNT], double state[2][COUNT], int t)
{
    double *m = state[0], *v = state[1];
    muon_matrix(x, g, m, ROWS, COLS);
    muon_matrix(x + MATRIX + VECTOR, g + MATRIX + VECTOR, m + MATRIX + VECTOR, COLS, ROWS);
    for (int i = MATRIX; i < MATRIX + VECTOR; i++) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
        x[i] -= 0.01 * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.95, t))) + 1e-8);
    }
}

static const struct wk_muon_options muon_options = {
    .rate = 0.01,
    .momentum = 0.95,
    .nesterov = true,
    .weight_decay = 0.1,
    .others = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8},
};

Test(papers, muon)
{
    struct wk_optimizer *o;
    cr_assert_eq(wk_muon_new(&muon_options, &o), 0);
    /* Each iteration makes small singular values, and their errors, 3.4445 times as large. */
    double grown = 0.01 * 0.2 * sqrt(COLS) * pow(3.4445, 5);
    follow(o, muon, UPDATE + grown * grown * 5 * (2 * ROWS + COLS));
}

/* The update of a matrix has singular values near 1: its rows are nearly orthogonal. */
Test(papers, muon_makes_rows_nearly_orthogonal)
{
    struct wk_optimizer *o;
    float x[COUNT] = {0}, grads[COUNT];
    struct wk_muon_options options = muon_options;
    options.weight_decay = 0;
    cr_assert_eq(wk_muon_new(&options, &o), 0);
    cr_assert_eq(optimizer_bind(o, params, 3, 0, COUNT, NULL), 0);
    for (int i = 0; i < COUNT; i++)
        grads[i] = pattern(i, 5);
    cr_assert_eq(optimizer_step(o, x, grads, 1, NULL), 0);
    double size = 0.01 * 0.2 * sqrt(COLS);
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < ROWS; k++) {
            double product = 0;
            for (int j = 0; j < COLS; j++)
                product += (double)x[i * COLS + j] * (double)x[k * COLS + j] / (size * size);
            cr_expect_float_eq(product, i == k ? 0.9 : 0, i == k ? 0.4 : 0.3, "%d %d: %g", i, k,
                               product);
        }
    }
    wk_optimizer_free(o);
}

Test(papers, refuse_numbers_out_of_range)
{
    struct wk_optimizer *o = NULL;
    struct wk_muon_options muon_wrong = muon_options;
    muon_wrong.momentum = 1;
    cr_expect_eq(wk_muon_new(&muon_wrong, &o), WK_EINVAL);
    cr_expect_eq(wk_lion_new(&(struct wk_lion_options){0.1, 0.9, 1.5, 0}, &o), WK_EINVAL);
    cr_expect_eq(wk_adam_new(&(struct wk_adamw_options){0.1, 0.9, 0.9, -1, 0}, &o), WK_EINVAL);
    struct wk_adafactor_options adafactor_wrong = {.rate = 1, .decay_power = 0.8};
    cr_expect_eq(wk_adafactor_new(&adafactor_wrong, &o), WK_EINVAL);
    cr_expect_null(o);
}
