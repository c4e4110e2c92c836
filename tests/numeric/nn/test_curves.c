/* The functions of one element against libm's in double, over all floats in steps that are prime to
 * every power of 2, in every build and the plain one. A unit is 2^-24. Where the bounds come from,
 * in units:
 *
 *     exp        1.4 seen: its polynomial's last two roundings, of a sum and a product, and n ln 2
 *     sigmoid    exp, 1 for the sum, 1 for the division: less than 4
 *     softplus_rest  exp 2, a sum a third, a division 1, a series 0.5, the last sum 1
 *     tanh       exp - 1 twice as far off relative to itself, which m / (m + 2) halves; 3 roundings
 *     silu       sigmoid and a product
 *     gelu_erf   exp 2, a polynomial of 10 terms of both signs 4, a division, 3 products
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/curves.h"
#include "tests/numeric/nn/fixture.h"

enum { STEP = 8191, BLOCK = 1024 };

static const double UNIT = 0x1p-24, LEAST = 0x1p-118;

/* A value, and what roundings are relative to: itself, or the sum of its terms' sizes. */
struct exact {
    double value, size;
};

struct subject {
    const char *name;
    curve_fn *curve;
    curve_slope_fn *slope; /* one of the two */
    struct exact (*exact)(double x);
    double units;
};

static double share_of(double x, double s)
{
    return s == 0 ? 0 : x * s;
}

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

static double below(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static struct exact itself(double value)
{
    return (struct exact){value, fabs(value)};
}

static struct exact sum_of(double a, double b)
{
    return (struct exact){a + b, fabs(a) + fabs(b)};
}

static struct exact exact_tanh(double x)
{
    return itself(tanh(x));
}

static struct exact exact_sigmoid(double x)
{
    return itself(sigmoid_of(x));
}

static struct exact exact_softplus_rest(double x)
{
    return itself(log1p(exp(-fabs(x))));
}

static struct exact exact_silu(double x)
{
    return itself(share_of(x, sigmoid_of(x)));
}

static struct exact exact_silu_slope(double x)
{
    return sum_of(sigmoid_of(x), share_of(x, sigmoid_of(x) * sigmoid_of(-x)));
}

static struct exact exact_gelu(double x)
{
    return itself(share_of(x, below(x)));
}

static struct exact exact_gelu_slope(double x)
{
    return sum_of(below(x), share_of(x, exp(-x * x / 2) / sqrt(2 * M_PI)));
}

/* The largest error in units. */
static double worst_of(const struct subject *s, const float *x, size_t count)
{
    float out[BLOCK], ones[BLOCK];
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    if (s->curve)
        s->curve(out, x, count);
    else
        s->slope(out, x, ones, count);
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i])) {
            cr_expect(isnan(out[i]), "%s of NaN", s->name);
            continue;
        }
        struct exact exact = s->exact((double)x[i]);
        double off = fabs((double)out[i] - exact.value);
        if (isinf(x[i]) && exact.value == 0)
            cr_expect(off == 0, "%s of infinity", s->name);
        if ((double)out[i] != exact.value && off > LEAST)
            worst = fmax(worst, isfinite(off) ? off / exact.size / UNIT : INFINITY);
    }
    return worst;
}

static double worst_of_all(const struct subject *s)
{
    double worst = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
        float x[BLOCK];
        size_t count = 0;
        for (; count < BLOCK && bits < (uint64_t)1 << 32; bits += STEP) {
            uint32_t low = (uint32_t)bits;
            memcpy(&x[count++], &low, sizeof(low));
        }
        worst = fmax(worst, worst_of(s, x, count));
    }
    const float edges[] = {0, -0.0F, INFINITY, -INFINITY, NAN};
    return fmax(worst, worst_of(s, edges, sizeof(edges) / sizeof(*edges)));
}

/* Where most numbers are, close together. */
static double worst_near_zero(const struct subject *s)
{
    double worst = 0;
    for (int block = 0; block < 128; block++) {
        float x[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            x[i] = (float)(block * BLOCK + i - 64 * BLOCK) * 0x1.0001p-12F;
        worst = fmax(worst, worst_of(s, x, BLOCK));
    }
    return worst;
}

/* An element's bits depend neither on its place nor on being computed in place. */
static void expect_same_bits(const struct subject *s)
{
    enum { COUNT = 53 };
    float *x = fixture_normal("x", COUNT, 4), *dout = fixture_normal("dout", COUNT, 1);
    float all[COUNT], alone[COUNT], place[COUNT];
    memcpy(place, s->curve ? x : dout, sizeof(place));
    for (size_t i = 0; i < COUNT; i++) {
        if (s->curve)
            s->curve(alone + i, x + i, 1);
        else
            s->slope(alone + i, x + i, dout + i, 1);
    }
    if (s->curve) {
        s->curve(all, x, COUNT);
        s->curve(place, place, COUNT);
    } else {
        s->slope(all, x, dout, COUNT);
        s->slope(place, x, place, COUNT);
    }
    cr_expect(!memcmp(all, alone, sizeof(all)), "%s: alone", s->name);
    cr_expect(!memcmp(all, place, sizeof(all)), "%s: in place", s->name);
    free(x);
    free(dout);
}

static void check_curves(const struct kernel_table *k, const struct kernel_table *plain)
{
    const struct curve_kernels *c = k->curves;
    const struct subject subjects[] = {
        {"tanh", c->tanh, NULL, exact_tanh, 4},
        {"sigmoid", c->sigmoid, NULL, exact_sigmoid, 4},
        {"softplus_rest", c->softplus_rest, NULL, exact_softplus_rest, 5},
        {"silu", c->silu, NULL, exact_silu, 5},
        {"silu'", NULL, c->silu_slope, exact_silu_slope, 6},
        {"gelu_erf", c->gelu_erf, NULL, exact_gelu, 10},
        {"gelu_erf'", NULL, c->gelu_erf_slope, exact_gelu_slope, 10},
    };
    (void)plain;
    for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
        const struct subject *s = &subjects[i];
        double worst = fmax(worst_of_all(s), worst_near_zero(s));
        cr_expect(worst <= s->units, "%s of %s is off by %.2f units, more than %g", s->name,
                  k->name, worst, s->units);
        expect_same_bits(s);
    }
}

static void every_build(fixture_check_fn *check)
{
    check(kernel_reference(), kernel_reference());
    fixture_every_build(check);
}

Test(curves, over_all_floats)
{
    every_build(check_curves);
}

/* log q of each class; logits may be minus infinity. */
static void log_shares(double *ret, const float *x, int64_t classes)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < classes; i++)
        most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < classes; i++)
        sum += exp((double)x[i] - most);
    for (int64_t i = 0; i < classes; i++)
        ret[i] = (double)x[i] - most - log(sum);
}

static void expect_divergence(const struct kernel_table *k, const float *student,
                              const float *teacher, int64_t classes)
{
    enum { CLASSES_MAX = 100 };
    struct kernel_divergence d = {classes, student, teacher};
    double q[CLASSES_MAX], p[CLASSES_MAX], expected = 0, apart = 1;
    float slope[CLASSES_MAX];
    log_shares(q, student, classes);
    log_shares(p, teacher, classes);
    for (int64_t i = 0; i < classes; i++) {
        expected += exp(p[i]) > 0 ? exp(p[i]) * (p[i] - q[i]) : 0;
        double between = fabs((double)student[i] - (double)teacher[i]);
        apart = isfinite(between) ? fmax(apart, between) : apart;
    }
    double got = k->curves->divergence(&d);
    cr_expect(got == expected || fabs(got - expected) <= 0x1p-40 * apart,
              "%s, %ld: %.17g, not %.17g", k->name, (long)classes, got, expected);
    k->curves->divergence_slope(&d, -1.5F, slope);
    for (int64_t i = 0; i < classes; i++) {
        double of = -1.5 * (exp(q[i]) - exp(p[i]));
        cr_expect(fabs((double)slope[i] - of) <= UNIT * fabs(of) + 0x1p-40, "%s: slope %ld",
                  k->name, (long)i);
    }
}

static void check_divergence(const struct kernel_table *k, const struct kernel_table *plain)
{
    enum { CLASSES = 100 };
    float *student = fixture_normal("student", CLASSES, 5);
    float *teacher = fixture_normal("teacher", CLASSES, 5);
    (void)plain;
    for (int64_t classes = 1; classes <= CLASSES; classes++)
        expect_divergence(k, student, teacher, classes);
    expect_divergence(k, student, student, CLASSES);
    teacher[3] = -INFINITY;
    teacher[4] = -900;
    student[5] = 800;
    expect_divergence(k, student, teacher, CLASSES);
    student[3] = -INFINITY; /* where the teacher gives no chance either */
    expect_divergence(k, student, teacher, CLASSES);
    student[7] = -INFINITY;
    expect_divergence(k, student, teacher, CLASSES);
    free(student);
    free(teacher);
}

Test(curves, divergence_of_softmaxes)
{
    every_build(check_divergence);
}
