/* Every code of every format, and every value where rounding changes, against the definition of the
 * formats in double: sign, exponent and mantissa by ldexp, rounding by looking at both neighbours.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include <worker/error.h>
#include <worker/precision.h>

#include "libworker/precision/amax.h"
#include "libworker/precision/half.h"

struct shape {
    enum wk_format format;
    int exponent, mantissa, bias;
    bool infinities; /* the highest exponent is reserved; else only its last mantissa, for NaN */
    bool saturates;
};

static const struct shape shapes[] = {
    {WK_FORMAT_F16, 5, 10, 15, true, false},
    {WK_FORMAT_BF16, 8, 7, 127, true, false},
    {WK_FORMAT_E4M3, 4, 3, 7, false, true},
    {WK_FORMAT_E5M2, 5, 2, 15, true, true},
};

enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static uint32_t half_codes(const struct shape *s) /* codes of one sign */
{
    return 1u << (s->exponent + s->mantissa);
}

/* What a code without its sign means. */
static double meaning(const struct shape *s, uint32_t code)
{
    uint32_t exponent = code >> s->mantissa, mantissa = code & ((1u << s->mantissa) - 1);
    uint32_t highest = (1u << s->exponent) - 1, last = (1u << s->mantissa) - 1;
    if (exponent == highest && s->infinities)
        return mantissa ? NAN : INFINITY;
    if (exponent == highest && mantissa == last)
        return NAN;
    if (exponent == 0)
        return ldexp(mantissa, 1 - s->bias - s->mantissa);
    return ldexp(1 + ldexp(mantissa, -s->mantissa), (int)exponent - s->bias);
}

static uint32_t narrow(const struct shape *s, float x)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    bool byte = wk_format_bytes(s->format) == 1;
    cr_assert_eq(wk_narrow(byte ? (void *)&narrow : &wide, s->format, &x, 1), 0);
    return byte ? narrow : wide;
}

static float widen(const struct shape *s, uint32_t code)
{
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    float x = 0;
    bool byte = wk_format_bytes(s->format) == 1;
    cr_assert_eq(wk_widen(&x, s->format, byte ? (void *)&narrow : &wide, 1), 0);
    return x;
}

Test(formats, every_code_means_what_its_bits_say)
{
    for (int f = 0; f < SHAPES; f++) {
        for (uint32_t code = 0; code < 2 * half_codes(&shapes[f]); code++) {
            bool negative = code >= half_codes(&shapes[f]);
            double expected = meaning(&shapes[f], code % half_codes(&shapes[f]));
            double found = (double)widen(&shapes[f], code);
            bool same = isnan(expected) ? isnan(found)
                                        : found == (negative ? -expected : expected) &&
                                              signbit(found) == (negative ? signbit(-1.0) : 0);
            cr_assert(same, "%s 0x%x is %g, not %g", wk_format_name(shapes[f].format), code, found,
                      expected);
        }
    }
}

static uint32_t largest_code(const struct shape *s)
{
    uint32_t code = half_codes(s) - 1;
    while (!isfinite(meaning(s, code)))
        code--;
    return code;
}

/* The code of x >= 0 by the definition: the nearer neighbour, the even one of two as near. */
static uint32_t expected_code(const struct shape *s, double x)
{
    uint32_t low = 0, high = largest_code(s);
    double top = meaning(s, high), beyond = top + (top - meaning(s, high - 1)) / 2;
    if (x >= top)
        return x < beyond || s->saturates ? high : high + 1;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (meaning(s, middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double below = x - meaning(s, low), above = meaning(s, high) - x;
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

static void check_rounding(const struct shape *s, float x)
{
    uint32_t expected = expected_code(s, (double)x);
    uint32_t found = narrow(s, x), mirrored = narrow(s, -x);
    cr_assert_eq(found, expected, "%s of %.9g is 0x%x, not 0x%x", wk_format_name(s->format),
                 (double)x, found, expected);
    cr_assert_eq(mirrored, expected + half_codes(s), "%s of -%.9g", wk_format_name(s->format),
                 (double)x);
}

/* Rounding rises with its argument and changes only at the codes' values and half-way between:
 * those and their neighbours decide all the others.
 */
Test(formats, rounding_to_nearest_even_at_every_value_where_it_changes)
{
    for (int f = 0; f < SHAPES; f++) {
        const struct shape *s = &shapes[f];
        for (uint32_t code = 0; code <= largest_code(s); code++) {
            double here = meaning(s, code);
            double step =
                code == largest_code(s) ? here - meaning(s, code - 1) : meaning(s, code + 1) - here;
            float places[2] = {(float)here, (float)(here + step / 2)};
            for (int p = 0; p < 2; p++) {
                check_rounding(s, places[p]);
                check_rounding(s, nextafterf(places[p], INFINITY));
                if (places[p] > 0)
                    check_rounding(s, nextafterf(places[p], 0));
            }
        }
    }
}

Test(formats, rounding_of_floats_from_the_whole_range)
{
    enum { STRIDE = 9973 }; /* of the 2^31 patterns */
    for (int f = 0; f < SHAPES; f++) {
        for (uint32_t bits = 0; bits <= 0x7f800000u; bits += STRIDE)
            check_rounding(&shapes[f], f32_of_bits(bits));
    }
}

Test(formats, nan_stays_and_infinity_saturates_only_in_eight_bits)
{
    for (int f = 0; f < SHAPES; f++) {
        const struct shape *s = &shapes[f];
        for (uint32_t bits = 0x7f800001u; bits <= 0x7fffffffu - 4099; bits += 4099) {
            cr_assert(isnan(widen(s, narrow(s, f32_of_bits(bits)))));
            cr_assert(isnan(widen(s, narrow(s, f32_of_bits(bits | 0x80000000u)))));
        }
        double top = meaning(s, largest_code(s));
        double found = (double)widen(s, narrow(s, -INFINITY));
        cr_expect_eq(found, s->saturates ? -top : -INFINITY);
    }
    cr_expect_eq(widen(&shapes[2], narrow(&shapes[2], 1e9f)), 448);
    cr_expect_eq(widen(&shapes[3], narrow(&shapes[3], 1e9f)), 57344);
    cr_expect_eq(wk_narrow(NULL, (enum wk_format)9, NULL, 0), WK_EINVAL);
    cr_expect_eq(wk_format_bytes((enum wk_format)9), 0);
}

/* The chance of rounding up is the part cut off, so the mean of many roundings is the value. */
Test(stochastic, mean_is_the_value)
{
    enum { COUNT = 1 << 16 };
    static float x[COUNT];
    static uint16_t out[COUNT];
    static const float values[] = {1.001f, -3.3f, 1e-20f, 7.0f, 12345.678f};
    for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = values[v];
        wk_narrow_stochastic(out, x, COUNT, 5, 0);
        double sum = 0, low = INFINITY, high = -INFINITY;
        for (int i = 0; i < COUNT; i++) {
            double y = (double)f32_of_bf16(out[i]);
            sum += y;
            low = fmin(low, y);
            high = fmax(high, y);
        }
        /* One rounding has a deviation of at most half a step; the mean of 2^16, 1/256 of that. */
        double step = high - low, off = sum / COUNT - (double)values[v];
        cr_expect_leq(fabs(off), 4 * step / 512, "%g: mean off by %g, step %g", values[v], off,
                      step);
        cr_expect_leq(step, fabs((double)values[v]) / 128);
        cr_expect_eq(step == 0, values[v] == 7.0f); /* what bf16 holds is never changed */
    }
}

Test(stochastic, same_seed_same_bits_however_it_is_cut)
{
    enum { COUNT = 1000 };
    float x[COUNT];
    uint16_t whole[COUNT], parts[COUNT], other[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = 1.0f / (float)(i + 3);
    wk_narrow_stochastic(whole, x, COUNT, 7, 100);
    wk_narrow_stochastic(parts, x, 333, 7, 100);
    wk_narrow_stochastic(parts + 333, x + 333, COUNT - 333, 7, 433);
    wk_narrow_stochastic(other, x, COUNT, 8, 100);
    cr_expect_eq(memcmp(whole, parts, sizeof(whole)), 0);
    cr_expect_neq(memcmp(whole, other, sizeof(whole)), 0);
}

Test(stochastic, finite_stays_finite_and_nan_stays_nan)
{
    static const uint32_t edges[] = {0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001};
    for (uint32_t random = 0; random < 0x10000; random += 7) {
        for (int i = 0; i < 5; i++) {
            float x = f32_of_bits(edges[i]);
            float y = f32_of_bf16(bf16_of_f32_stochastic(x, random));
            cr_assert_eq(isnan(x), isnan(y));
            cr_assert_eq(isfinite(x), isfinite(y));
        }
    }
}

Test(amax, scale_takes_the_largest_remembered_to_the_top)
{
    struct amax_history h = {.length = 3};
    cr_expect_eq(amax_scale(&h, 448, 0), 1);
    amax_note(&h, 100);
    cr_expect_eq(amax_scale(&h, 448, 0), 4);
    cr_expect_eq(amax_scale(&h, 448, 1), 2);
    amax_note(&h, NAN);
    amax_note(&h, -1);
    amax_note(&h, 2);
    cr_expect_eq(amax_scale(&h, 448, 0), 4);
    amax_note(&h, 3); /* 100 is forgotten */
    cr_expect_eq(amax_scale(&h, 448, 0), 128);
}
