/* Muon: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks", with the
 * update's size of Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2.
 */
#include "libworker/optim/muon.h"

#include "libworker/nn/model.h"
#include "libworker/optim/adam.h"

static bool is_matrix(const struct optimizer_segment *segment)
{
    const struct param *param = segment->param;
    return param->dims == 2 && !param->lookup && !segment->elementwise;
}

/* c = alpha op(a) op(b) + beta c of small square-ish matrices without padding. */
static void multiply(const struct kernel_table *kernels, struct kernel_gemm gemm)
{
    gemm.lda = gemm.transpose_a ? gemm.m : gemm.k;
    gemm.ldb = gemm.transpose_b ? gemm.k : gemm.n;
    gemm.ldc = gemm.n;
    kernels->gemm(&gemm);
}

/* x[rows, cols] approaches the nearest matrix with orthogonal rows or columns. `s` and `p` have
 * space for side^2 each, `y` for x. FLOP of a step: 4 side^2 (other + side / 2). */
static void newton_schulz(const struct kernel_table *k, const int64_t size[2], float *x,
                          float *const room[3])
{
    int64_t rows = size[0], cols = size[1];
    bool wide = rows <= cols;
    int64_t side = wide ? rows : cols;
    float *s = room[0], *p = room[1], *y = room[2];
    for (int i = 0; i < MUON_ITERATIONS; i++) {
        multiply(k, (struct kernel_gemm){.transpose_a = !wide,
                                         .transpose_b = wide,
                                         .m = side,
                                         .n = side,
                                         .k = wide ? cols : rows,
                                         .alpha = 1,
                                         .a = x,
                                         .b = x,
                                         .c = s});
        k->blend(p, &(struct kernel_blend){MUON_B, 0}, s, s, (size_t)(side * side));
        multiply(k, (struct kernel_gemm){.m = side,
                                         .n = side,
                                         .k = side,
                                         .alpha = MUON_C,
                                         .beta = 1,
                                         .a = s,
                                         .b = s,
                                         .c = p});
        k->blend(y, &(struct kernel_blend){MUON_A, 0}, x, x, (size_t)(rows * cols));
        multiply(k, (struct kernel_gemm){.m = rows,
                                         .n = cols,
                                         .k = side,
                                         .alpha = 1,
                                         .beta = 1,
                                         .a = wide ? p : x,
                                         .b = wide ? x : p,
                                         .c = y});
        float *old = x;
        x = y;
        y = old;
    }
    if (MUON_ITERATIONS % 2)
        k->blend(y, &(struct kernel_blend){1, 0}, x, x, (size_t)(rows * cols));
}

static int64_t smaller_side(const struct param *param)
{
    return param->shape[0] < param->shape[1] ? param->shape[0] : param->shape[1];
}

static void muon_numbers(const struct wk_optimizer *o, const struct optimizer_segment *segment,
                         struct optimizer_numbers *ret)
{
    const struct wk_muon_options *m = &o->options.muon;
    struct adam_rates others = {
        .options = &m->others,
        .rate = wk_optimizer_rate(o) * segment->rate_scale,
        .weight_decay = segment->weight_decay,
        .decoupled = true,
    };
    struct muon_numbers *n = &ret->muon;
    n->is_matrix = is_matrix(segment);
    if (!n->is_matrix) {
        n->others = adam_kernel(o, &others);
        return;
    }
    n->nesterov = m->nesterov;
    n->momentum = (float)m->momentum;
    for (int i = 0; i < 2; i++)
        n->size[i] = segment->param->shape[i];
    n->square = (size_t)smaller_side(segment->param);
    n->rate = others.rate;
    n->weight_decay = others.weight_decay;
}

static void muon_note(struct optimizer_numbers *n, size_t count, struct noted_numbers *ret)
{
    struct muon_numbers *m = &n->muon;
    if (m->is_matrix) {
        ret->muon = muon_step(m, count);
        m->rate = 0;
    } else {
        ret->adamw = m->others;
        m->others = (struct kernel_adamw){0};
    }
}

static void matrix_update(const struct optimizer_numbers *n, const struct kernel_update *u,
                          float grad_scale)
{
    const struct muon_numbers *m = &n->muon;
    const struct kernel_table *k = n->kernels;
    size_t count = u->count, square = m->square;
    float *momentum = n->own[MUON_MOMENTUM], *update = n->scratch;
    float *const room[3] = {update + 2 * count, update + 2 * count + square * square,
                            update + count};
    float fresh = (1 - m->momentum) * grad_scale, kept = m->momentum;

    k->blend(momentum, &(struct kernel_blend){kept, fresh}, momentum, u->grads, count);
    k->blend(update,
             m->nesterov ? &(struct kernel_blend){fresh, kept} : &(struct kernel_blend){0, 1},
             u->grads, momentum, count);
    double norm = sqrt(k->sum_squares(update, count));
    k->scale(update, (float)(1 / (norm + MUON_EPSILON)), count);
    newton_schulz(k, m->size, update, room);
    struct kernel_blend step = muon_step(m, count);
    k->blend(u->params, &step, u->params, update, count);
}

static void muon_update(const struct optimizer_numbers *n, const struct kernel_update *update,
                        float grad_scale)
{
    if (n->muon.is_matrix) {
        matrix_update(n, update, grad_scale);
        return;
    }
    struct kernel_adamw kernel = n->muon.others;
    struct kernel_update others = *update;
    kernel.grad_scale = grad_scale;
    others.state[0] = n->own[MUON_AVG];
    others.state[1] = n->own[MUON_AVG_SQ];
    n->kernels->adamw(&kernel, &others);
}

static struct optimizer_shape muon_shape(const struct optimizer_segment *segment, int state)
{
    struct optimizer_shape shape = {0};
    if (is_matrix(segment) != (state == MUON_MOMENTUM))
        return shape;
    shape.dims = segment->param->dims;
    for (int i = 0; i < shape.dims; i++)
        shape.shape[i] = segment->param->shape[i];
    return shape;
}

static size_t muon_scratch(const struct optimizer_segment *segment)
{
    if (!is_matrix(segment))
        return 0;
    size_t side = (size_t)smaller_side(segment->param);
    return 2 * segment->count + 2 * side * side;
}

static const struct optimizer_ops muon_ops = {
    .name = "muon",
    .n_states = 3,
    .state_names = {"momentum_buffer", "exp_avg", "exp_avg_sq"},
    .numbers = muon_numbers,
    .update = muon_update,
    .whole_tensors = true,
    .state_shape = muon_shape,
    .scratch = muon_scratch,
    .note = muon_note,
};

int wk_muon_new(const struct wk_muon_options *options, struct wk_optimizer **ret_optimizer)
{
    struct error err = {0};
    int rc = optimizer_options_check(options, &err);
    if (!rc)
        rc = optimizer_rate_check(options->rate, options->weight_decay, &err);
    if (!rc)
        rc = optimizer_beta_check("momentum", options->momentum, &err);
    if (!rc && adam_moments_check(&options->others, &err))
        rc = error_wrap(&err, "others");
    if (rc)
        return optimizer_refuse(&err, ret_optimizer);
    rc = optimizer_new(&muon_ops, options->rate, options->weight_decay, ret_optimizer);
    if (!rc)
        (*ret_optimizer)->options.muon = *options;
    return rc;
}
