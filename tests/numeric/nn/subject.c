#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/nn/subject.h"

static const float NUDGE = 1e-2f;
static const double TOLERANCE = 2e-3; /* of the largest: float sums over the nudge, and its cube */

static double value(struct subject *s)
{
    double sum = 0;
    s->forward(s);
    for (size_t i = 0; i < s->out_count; i++)
        sum += (double)s->out[i] * (double)s->dout[i];
    return sum;
}

static void nudge_input(struct subject *s, int input)
{
    size_t count = s->counts[input];
    float *x = s->inputs[input], *expected = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        float kept = x[i], up = kept + NUDGE, down = kept - NUDGE;
        x[i] = up;
        double above = value(s);
        x[i] = down;
        double below = value(s);
        x[i] = kept;
        expected[i] = (float)((above - below) / ((double)up - (double)down));
    }
    double distance = fixture_distance(s->grads[input], expected, count);
    cr_expect(distance <= TOLERANCE, "%s with %s: gradient of input %d is %g off", s->name,
              s->kernels->name, input, distance);
    free(expected);
}

void subject_input(struct subject *s, const char *name, size_t count, double deviation)
{
    int i = s->n_inputs++;
    s->inputs[i] = fixture_normal(name, count, deviation);
    s->grads[i] = calloc(count, sizeof(float));
    s->counts[i] = count;
}

void subject_output(struct subject *s, size_t count)
{
    s->out_count = count;
    s->out = calloc(count, sizeof(float));
    s->dout = fixture_normal("dout", count, 1);
}

void subject_release(struct subject *s)
{
    for (int i = 0; i < s->n_inputs; i++) {
        free(s->inputs[i]);
        free(s->grads[i]);
    }
    free(s->out);
    free(s->dout);
}

void subject_check(struct subject *s)
{
    s->forward(s);
    s->backward(s);
    for (int i = 0; i < s->n_inputs; i++)
        nudge_input(s, i);
    subject_release(s);
}

void subject_each(subject_kernels_fn *check_with)
{
    check_with(kernel_reference());
    check_with(kernel_cpu());
}

void subject_near(const struct subject *s, int64_t i, double expected, double roundings)
{
    double most = 0, off = fabs((double)s->out[i] - expected);
    for (size_t j = 0; j < s->out_count; j++)
        most = fmax(most, fabs((double)s->out[j]));
    cr_assert(off <= rounding_bound(roundings) * most, "%s: [%d] is %g, not %g", s->name, (int)i,
              (double)s->out[i], expected);
}

struct operand subject_x(const struct subject *s)
{
    return (struct operand){.data = s->inputs[0]};
}
