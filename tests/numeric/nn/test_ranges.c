/* The kernels that bend numbers, over every exponent a float has, both signs, denormals, infinities
 * and NaN, in every build and the plain one, against sums in double. Bounds are units in the last
 * place, grown by what the argument of an exponential is uncertain by, and a floor far below
 * anything that trains: what is smaller may come out as 0.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

enum { MANTISSAS = 24, COUNT = 2 * 256 * MANTISSAS };

static const double LEAST = 0x1p-118;
static const double ROUNDING = 4 * ROUNDING_F32;

/* All exponents from denormal to infinite; of the last only the two infinities. */
static void sweep(float x[COUNT])
{
    uint32_t random = 1;
    for (int i = 0; i < COUNT; i++) {
        uint32_t exponent = (uint32_t)i / MANTISSAS % 256, sign = i >= COUNT / 2;
        random = random * 1664525 + 1013904223;
        uint32_t mantissa = i % MANTISSAS == 0 ? 0 : i % MANTISSAS == 1 ? 0x7fffff : random >> 9;
        uint32_t bits = sign << 31 | exponent << 23 | (exponent == 255 ? 0 : mantissa);
        memcpy(&x[i], &bits, sizeof(bits));
    }
}

/* x sigmoid(u), with du/dx x what the slope of the sigmoid is multiplied by. */
struct gate {
    double x, u, turn;
};

static struct gate gelu_at(double x)
{
    const double linear = 1.5957691216057308, cubic = linear * 0.044715;
    return (struct gate){x, x * (linear + cubic * x * x), x * (linear + 3 * cubic * x * x)};
}

static struct gate silu_at(double x)
{
    return (struct gate){x, x, x};
}

struct near {
    double value, slack;
};

/* What multiplies something that its sigmoid has taken to 0 before it is infinite. */
static double share(double factor, double of)
{
    return factor == 0 ? 0 : factor * of;
}

static struct near gate_value(struct gate g)
{
    double s = 1 / (1 + exp(-g.u)), rest = 1 / (1 + exp(g.u));
    double value = share(s, g.x);
    return (struct near){value, ROUNDING * fabs(value) * (1 + share(rest, fabs(g.u))) + LEAST};
}

static struct near gate_slope(struct gate g)
{
    double s = 1 / (1 + exp(-g.u)), rest = 1 / (1 + exp(g.u)), bend = s * rest;
    if (bend == 0)
        return (struct near){s, ROUNDING * s + LEAST};
    double slack = s * (1 + rest * fabs(g.u)) + bend * fabs(g.turn) * (1 + fabs(g.u));
    return (struct near){s + bend * g.turn, ROUNDING * slack + LEAST};
}

static void expect_near(const char *what, const struct kernel_table *k, float x, float got,
                        struct near near)
{
    bool same = (double)got == near.value; /* also where both are infinite */
    cr_expect(same || fabs((double)got - near.value) <= near.slack,
              "%s(%a) of %s: %a, not %a, which is %.1f times what may be", what, (double)x, k->name,
              (double)got, near.value, fabs((double)got - near.value) / near.slack);
}

static void check_gelu(const struct kernel_table *k, const struct kernel_table *plain)
{
    static float x[COUNT], out[COUNT], dx[COUNT];
    (void)plain;
    sweep(x);
    k->gelu_forward(out, x, COUNT);
    for (int i = 0; i < COUNT; i++)
        dx[i] = 1;
    k->gelu_backward(dx, x, dx, COUNT);
    for (int i = 0; i < COUNT; i++) {
        expect_near("gelu", k, x[i], out[i], gate_value(gelu_at((double)x[i])));
        expect_near("gelu'", k, x[i], dx[i], gate_slope(gelu_at((double)x[i])));
    }
    k->gelu_forward(out, (const float[]){NAN}, 1);
    k->gelu_backward(dx, (const float[]){NAN}, (const float[]){1}, 1);
    cr_expect(isnan(out[0]) && isnan(dx[0]));
}

static void every_build(fixture_check_fn *check)
{
    check(kernel_reference(), kernel_reference());
    fixture_every_build(check);
}

Test(ranges, gelu)
{
    every_build(check_gelu);
}

static void check_silu(const struct kernel_table *k, const struct kernel_table *plain)
{
    static float x[2 * COUNT], out[COUNT], ones[COUNT], dx[2 * COUNT];
    const int64_t size[2] = {1, COUNT};
    (void)plain;
    sweep(x);
    for (int i = 0; i < COUNT; i++)
        ones[i] = x[COUNT + i] = 1;
    k->swiglu_forward(out, x, 1, COUNT);
    k->swiglu_backward(dx, x, ones, size);
    for (int i = 0; i < COUNT; i++) {
        struct near value = gate_value(silu_at((double)x[i]));
        expect_near("silu", k, x[i], out[i], value);
        expect_near("silu'", k, x[i], dx[i], gate_slope(silu_at((double)x[i])));
        expect_near("d up of silu", k, x[i], dx[COUNT + i], value);
    }
    k->swiglu_forward(out, (const float[]){NAN, 1}, 1, 1);
    k->swiglu_backward(dx, (const float[]){NAN, 1}, (const float[]){1}, (const int64_t[]){1, 1});
    cr_expect(isnan(out[0]) && isnan(dx[0]) && isnan(dx[1]));
}

Test(ranges, silu)
{
    every_build(check_silu);
}

/* Two scores: 0 and what the sweep says; the exponential is of their difference. */
static void check_softmax(const struct kernel_table *k, const struct kernel_table *plain)
{
    static float x[COUNT];
    struct kernel_causal causal = {.first = 1, .rows = 1, .cols = 2, .ld = 2, .scale = 1};
    (void)plain;
    sweep(x);
    for (int i = 0; i < COUNT; i++) {
        float p[2] = {0, x[i]}, dp[2] = {1, -1};
        if (x[i] == INFINITY)
            continue; /* its difference from itself is no number, as in the plain kernel */
        k->softmax_causal(&causal, p);
        for (int j = 0; j < 2; j++) {
            double u = (double)(j ? x[i] : -x[i]), value = 1 / (1 + exp(-u));
            expect_near("softmax", k, x[i], p[j], (struct near){value, ROUNDING * value + LEAST});
        }
        k->softmax_causal_backward(&causal, dp, p);
        double bend = 2 * (double)p[0] * (double)p[1];
        expect_near("softmax'", k, x[i], dp[0],
                    (struct near){bend, ROUNDING * (double)p[0] + LEAST});
        expect_near("softmax'", k, x[i], dp[1],
                    (struct near){-bend, ROUNDING * (double)p[1] + LEAST});
    }
}

Test(ranges, softmax)
{
    every_build(check_softmax);
}

enum { WIDTH = 61, NORM_SUMS = 4 }; /* mean, squares; back: of dy, of dy and x */
enum { LEAST_EXPONENT = -149, MOST_EXPONENT = 59 };

/* Largest |a - b| against the largest |b|. */
static void expect_row(const char *what, const struct kernel_table *k, int exponent,
                       const float *got, const double *expected)
{
    double most = 0, off = 0;
    for (int i = 0; i < WIDTH; i++) {
        most = fmax(most, fabs(expected[i]));
        off = fmax(off, fabs((double)got[i] - expected[i]));
        off = isnan(got[i]) ? INFINITY : off;
    }
    cr_expect(off <= rounding_bound(NORM_SUMS * WIDTH) * most + LEAST,
              "%s of %s at 2^%d: %g off %g", what, k->name, exponent, off, most);
}

/* In double, from the definition: rms has no mean. */
static void norm_in_double(const float *x, const float *dy, bool rms, double *out, double *dx)
{
    double mean = 0, square = 0, of_dy = 0, of_both = 0;
    for (int i = 0; i < WIDTH && !rms; i++)
        mean += (double)x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / WIDTH;
    double rstd = 1 / sqrt(square + (double)1e-5f);
    for (int i = 0; i < WIDTH; i++) {
        out[i] = ((double)x[i] - mean) * rstd;
        of_dy += rms ? 0 : (double)dy[i] / WIDTH;
        of_both += (double)dy[i] * out[i] / WIDTH;
    }
    for (int i = 0; i < WIDTH; i++)
        dx[i] = ((double)dy[i] - of_dy - out[i] * of_both) * rstd;
}

static void check_norm(const struct kernel_table *k, const struct kernel_table *plain)
{
    float *unit = fixture_normal("x", WIDTH, 1), *dy = fixture_normal("dy", WIDTH, 1);
    float ones[WIDTH], zeros[WIDTH] = {0}, x[WIDTH], out[WIDTH], mean, rstd;
    double expected[WIDTH], slopes[WIDTH];
    (void)plain;
    for (int i = 0; i < WIDTH; i++)
        ones[i] = 1;
    struct kernel_norm norm = {.rows = 1,
                               .width = WIDTH,
                               .epsilon = 1e-5f,
                               .x = x,
                               .weight = ones,
                               .bias = zeros,
                               .mean = &mean,
                               .rstd = &rstd};
    for (int exponent = LEAST_EXPONENT; exponent <= MOST_EXPONENT; exponent++) {
        for (int i = 0; i < WIDTH; i++)
            x[i] = (float)ldexp((double)unit[i], exponent);
        for (int rms = 0; rms < 2; rms++) {
            float dx[WIDTH] = {0}, dweight[WIDTH] = {0}, dbias[WIDTH] = {0};
            norm_in_double(x, dy, rms, expected, slopes);
            if (rms) {
                k->rms_forward(&norm, out);
                k->rms_backward(&norm, dy, dx, dweight);
            } else {
                k->norm_forward(&norm, out);
                k->norm_backward(&norm, dy, dx, dweight, dbias);
            }
            expect_row(rms ? "rms" : "norm", k, exponent, out, expected);
            expect_row(rms ? "rms'" : "norm'", k, exponent, dx, slopes);
        }
    }
    free(unit);
    free(dy);
}

Test(ranges, norms)
{
    every_build(check_norm);
}

#ifdef __SSE2__
/* Moments that fade end at 0 in every place of a block, and nobody else's numbers are flushed. */
static void check_fading(const struct kernel_table *k, const struct kernel_table *plain)
{
    enum { PARAMS = 147 };
    float params[PARAMS], grads[PARAMS] = {0}, m[PARAMS], v[PARAMS];
    struct kernel_update u = {.params = params, .grads = grads, .state = {m, v}, .count = PARAMS};
    struct kernel_adamw adamw = {.beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .epsilon = 1e-8f,
                                 .grad_scale = 1,
                                 .keep = 1,
                                 .step_size = 1,
                                 .inv_root2 = 1};
    struct kernel_sgd sgd = {.rate = 1, .momentum = 0.9f, .grad_scale = 1};
    struct kernel_lion lion = {.beta1 = 0.9f, .beta2 = 0.99f, .grad_scale = 1, .keep = 1};
    (void)plain;
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < PARAMS; i++) {
            params[i] = 2;
            m[i] = FLT_MIN;
            v[i] = FLT_MIN / 4;
        }
        if (kind == 0)
            k->adamw(&adamw, &u);
        else if (kind == 1)
            k->sgd(&sgd, &u);
        else
            k->lion(&lion, &u);
        for (int i = 0; i < PARAMS; i++) {
            cr_expect(m[i] == 0 && params[i] == 2, "%s, %d: [%d] is %a", k->name, kind, i,
                      (double)m[i]);
            cr_expect(kind > 0 || v[i] == 0);
        }
    }
    volatile float small = FLT_MIN;
    cr_expect(small / 2 > 0);
}

Test(ranges, moments_that_fade_end_at_zero)
{
    fixture_every_build(check_fading);
}
#endif
