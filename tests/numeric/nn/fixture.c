#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libworker/nn/random.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

enum { LONGEST_SUM = 256 }; /* in a test of one kernel: products of 129, rows of 131 */

static const float STEP = 2e-3f;           /* along a direction */
static const double SLOPE_ROUNDING = 3e-4; /* of a loss in float, over the step */

float *fixture_normal(const char *name, size_t count, double deviation)
{
    float *values = malloc((count + 2) * sizeof(*values));
    uint64_t key = random_key(1, name);
    for (size_t i = 0; i < count; i += 2) {
        double pair[2];
        random_normal_pair(key, i / 2, pair);
        values[i] = (float)(pair[0] * deviation);
        values[i + 1] = (float)(pair[1] * deviation);
    }
    return values;
}

double fixture_distance(const float *a, const float *b, size_t count)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(a[i]) || isnan(b[i]))
            return NAN;
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most == 0 ? 0 : most / size;
}

struct fixture fixture_new(const struct wk_gpt_config *config)
{
    struct fixture f = {0};
    cr_assert_eq(wk_gpt_new(config, &f.model), 0);
    f.params = calloc(f.model->count, sizeof(float));
    f.grads = calloc(f.model->count, sizeof(float));
    cr_assert_eq(model_bind(f.model, f.params, f.grads), 0);
    return f;
}

void fixture_free(struct fixture *f)
{
    wk_model_free(f->model);
    free(f->params);
    free(f->grads);
}

struct fixture fixture_busy(struct wk_model *model, const struct kernel_table *kernels)
{
    struct fixture f = {.model = model};
    model->kernels = kernels;
    f.params = calloc(model->count, sizeof(float));
    f.grads = calloc(model->count, sizeof(float));
    cr_assert_eq(model_bind(model, f.params, f.grads), 0);
    wk_model_init(model, 3);
    float *noise = fixture_normal("noise", model->count, 0.15);
    for (size_t i = 0; i < model->count; i++)
        f.params[i] += noise[i];
    free(noise);
    return f;
}

double fixture_loss(struct wk_model *model, const struct wk_batch *batch)
{
    double loss = NAN;
    struct error err = {0};
    cr_assert_eq(model_forward(model, batch, &loss, &err), 0, "%s", err.text);
    return loss;
}

static double slope(struct wk_model *model, const struct param *param, const float *direction,
                    const struct wk_batch *batch)
{
    float *kept = fixture_copy(param->data, param->count);
    double losses[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < param->count; i++)
            param->data[i] = kept[i] + (side ? -STEP : STEP) * direction[i];
        losses[side] = fixture_loss(model, batch);
    }
    memcpy(param->data, kept, param->count * sizeof(float));
    free(kept);
    return (losses[0] - losses[1]) / (2 * (double)STEP);
}

void fixture_expect_slopes(struct wk_model *model, const struct wk_batch *batch, int every,
                           double tolerance)
{
    for (int i = 0; i < model->n_params; i += every) {
        const struct param *param = &model->params[i];
        float *direction = fixture_normal(param->name, param->count, 1);
        double along = 0, square = 0;
        for (size_t j = 0; j < param->count; j++) {
            along += (double)param->grad[j] * (double)direction[j];
            square += (double)param->grad[j] * (double)param->grad[j];
        }
        cr_expect_gt(square, 0, "%s has no gradient", param->name);
        double measured = slope(model, param, direction, batch);
        cr_expect_float_eq(measured, along, SLOPE_ROUNDING + tolerance * sqrt(square),
                           "%s of %s with %s: slope %g, gradient says %g", param->name,
                           model->ops->name, model->kernels->name, measured, along);
        free(direction);
    }
}

void fixture_every_build(fixture_check_fn *check)
{
    const struct kernel_table *fast;
    int builds = 0;
    for (int i = 1; (fast = kernel_cpu_variant(i)); i++, builds++)
        check(fast, kernel_reference());
    cr_assert_geq(builds, 1);
}

float *fixture_copy(const float *x, size_t count)
{
    float *y = malloc(count * sizeof(*y));
    memcpy(y, x, count * sizeof(*y));
    return y;
}

void fixture_same(float *ours, const float *expected, size_t count, const char *what,
                  const struct kernel_table *kernels)
{
    double distance = fixture_distance(ours, expected, count);
    cr_expect(distance <= rounding_bound(LONGEST_SUM), "%s of %s is %g from the plain kernel", what,
              kernels->name, distance);
    free(ours);
}
