/* Adafactor: Shazeer and Stern 2018, algorithms 4 (matrices), 5 (vectors) and 6 (decay rising with
 * the step, updates clipped, rates relative to the parameter). Tensors of more dimensions are
 * matrices of shape[0] rows.
 */
#include <math.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"

enum { ROW, COL, VECTOR };

static bool is_matrix(const struct optimizer_segment *segment)
{
    return segment->param->dims >= 2;
}

static int64_t rows_of(const struct optimizer_segment *segment)
{
    return is_matrix(segment) ? segment->param->shape[0] : 1;
}

/* 1 / sqrt(row[i] / mean of row) and 1 / sqrt(col[j]): their product is 1 / sqrt of algorithm 4's
 * estimate.
 */
static void inverse_roots(const struct kernel_factored *f, float *rows, float *cols)
{
    double mean = 0;
    for (int64_t i = 0; f->row && i < f->rows; i++)
        mean += (double)f->row[i] / (double)f->rows;
    for (int64_t i = 0; i < f->rows; i++)
        rows[i] = f->row ? (float)sqrt(mean / (double)f->row[i]) : 1.0f;
    for (int64_t j = 0; j < f->cols; j++)
        cols[j] = 1.0f / sqrtf(f->col[j]);
}

static void adafactor_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                              struct optimizer_numbers *ret)
{
    const struct wk_adafactor_options *a = &o->options.adafactor;
    int64_t rows = rows_of(segment);
    struct adafactor_numbers *n = &ret->adafactor;
    n->rows = rows;
    n->cols = (int64_t)segment->count / rows;
    n->is_matrix = is_matrix(segment);
    n->relative = a->relative;
    n->rate = wk_optimizer_rate(o) * segment->rate_scale;
    n->weight_decay = segment->weight_decay;
    n->clip = a->clip;
    n->epsilon2 = a->epsilon2;
    n->decay = (float)(1 - pow((double)o->steps, -a->decay_power));
    n->epsilon1 = (float)a->epsilon1;
}

static void adafactor_note(struct optimizer_numbers *n, size_t count, struct noted_numbers *ret)
{
    (void)count;
    ret->adafactor.rate = n->adafactor.rate;
    ret->adafactor.decay = n->adafactor.decay;
    n->adafactor.rate = 0;
    n->adafactor.decay = 0;
}

static void adafactor_update(const struct optimizer_numbers *n, const struct kernel_update *update,
                             float grad_scale)
{
    const struct adafactor_numbers *a = &n->adafactor;
    const struct kernel_table *kernels = n->kernels;
    struct kernel_factored f = {
        .rows = a->rows,
        .cols = a->cols,
        .grads = update->grads,
        .row = a->is_matrix ? n->own[ROW] : NULL,
        .col = n->own[a->is_matrix ? COL : VECTOR],
        .grad_scale = grad_scale,
    };
    float *rows = n->scratch, *cols = n->scratch + f.rows;
    double count = (double)update->count, rate = a->rate;

    kernels->factored_moments(&f, a->decay, a->epsilon1);
    inverse_roots(&f, rows, cols);
    if (a->relative)
        rate *=
            fmax(a->epsilon2, sqrt(kernels->sum_squares(update->params, update->count) / count));
    double step = rate;
    if (a->clip > 0) {
        double root_mean = sqrt(kernels->factored_squares(&f, rows, cols) / count);
        step /= isnan(root_mean) ? root_mean : fmax(1, root_mean / a->clip);
    }
    struct kernel_blend keep_step = {(float)(1 - rate * a->weight_decay), (float)step};
    kernels->factored_apply(&f, rows, cols, &keep_step, update->params);
}

static struct optimizer_shape adafactor_shape(const struct optimizer_segment *segment, int state)
{
    int64_t rows = segment->param->shape[0], cols = (int64_t)segment->count / rows;
    if (is_matrix(segment))
        return state == VECTOR ? (struct optimizer_shape){0}
                               : (struct optimizer_shape){1, {state == ROW ? rows : cols}};
    return state == VECTOR ? (struct optimizer_shape){1, {rows}} : (struct optimizer_shape){0};
}

static size_t adafactor_scratch(const struct optimizer_segment *segment)
{
    int64_t rows = rows_of(segment);
    return (size_t)rows + segment->count / (size_t)rows;
}

static const struct optimizer_ops adafactor_ops = {
    .name = "adafactor",
    .n_states = 3,
    .state_names = {"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq"},
    .numbers = adafactor_numbers,
    .update = adafactor_update,
    .whole_tensors = true,
    .state_shape = adafactor_shape,
    .scratch = adafactor_scratch,
    .note = adafactor_note,
};

static int check_adafactor(const struct wk_adafactor_options *a, struct error *err)
{
    int rc = optimizer_options_check(a, err);
    if (!rc)
        rc = optimizer_rate_check(a->rate, a->weight_decay, err);
    if (rc)
        return rc;
    if (!(a->decay_power > 0) || !(a->decay_power <= 1))
        return error_set(err, WK_EINVAL, "decay_power is %g: it must be in (0, 1]", a->decay_power);
    if (!(a->epsilon1 > 0) || !isfinite(a->epsilon1))
        return error_set(err, WK_EINVAL, "epsilon1 is %g: it must be above 0", a->epsilon1);
    if (!(a->epsilon2 >= 0) || !isfinite(a->epsilon2))
        return error_set(err, WK_EINVAL, "epsilon2 is %g: it must be 0 or more", a->epsilon2);
    if (!(a->clip >= 0))
        return error_set(err, WK_EINVAL, "clip is %g: it must be 0 or more", a->clip);
    return 0;
}

int wk_adafactor_new(const struct wk_adafactor_options *a, struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    if (check_adafactor(a, &err))
        return optimizer_refuse(&err, ret_optimizer);
    int rc = optimizer_new(&adafactor_ops, a->rate, a->weight_decay, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.adafactor = *a;
    return rc;
}
