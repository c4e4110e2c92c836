/* PowerSGD. For a gradient matrix M [rows, cols] with the error E of earlier steps, and factors P
 * [rows, rank], Q [cols, rank], on each of N ranks:
 *
 *      M += E                           this rank's
 *      P = M Q            summed over the ranks, its columns made orthonormal
 *      Q = M' P           summed over the ranks
 *      result = P Q'      of all ranks
 *      E = M - result / N
 *
 * The sum of the ranks' errors is the part missing in the result. Q is the start of the next step;
 * if it is not finite that matrix starts again, as in a new generation. Gradients that are not
 * matrices, or too small to gain, are summed directly, together with P. The two sums of one part of
 * the gradients depend on each other; the second one starts when the next part begins.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/kernel.h"
#include "libworker/nn/model.h"
#include "libworker/nn/random.h"
#include "libworker/parallel/hook.h"

enum { GAIN_MIN = 2 }; /* factors at most this part of the matrix */

struct matrix {
    struct powersgd_shape shape;
    size_t q_at; /* in `factors` */
};

/* One wk_gradients on its way. */
struct part {
    struct wk_gradients *gradients;
    int first, n; /* parameters */
    float *sums, *q;
    size_t sums_count, q_count;
    struct wk_work *work;
    bool second; /* the sums of Q have started */
    int failure;
};

struct powersgd {
    struct hook_model model;
    struct powersgd_options options;
    struct matrix *matrices; /* [n_params] */
    struct part *parts;      /* [n_params], by index of the gradients */
    float *error;            /* [model.count]: E, times `scale`; between start and finish M */
    double scale;            /* what the gradients are multiplied with */
    float *factors;          /* Q of every matrix */
    size_t factors_count;
    struct wk_arena *arena;
    float *room; /* what is summed: P's and others, Q's, part after part */
    size_t taken;
    int64_t passes; /* of this generation */
    int world;
};

struct powersgd_shape powersgd_shape(const struct param *param, int rank)
{
    struct powersgd_shape s = {.rows = (size_t)param->shape[0], .rank = (size_t)rank};
    s.cols = param->count / s.rows;
    s.rank = s.rank < s.rows ? s.rank : s.rows;
    s.rank = s.rank < s.cols ? s.rank : s.cols;
    s.compressed = param->dims > 1 && (s.rows + s.cols) * s.rank * GAIN_MIN <= s.rows * s.cols;
    return s;
}

void powersgd_first(float *q, size_t count, uint64_t seed, const char *name)
{
    uint64_t key = random_key(seed, name);
    for (size_t i = 0; i < count; i += 2) {
        double pair[2];
        random_normal_pair(key, i / 2, pair);
        q[i] = (float)pair[0];
        if (i + 1 < count)
            q[i + 1] = (float)pair[1];
    }
}

/* Modified Gram-Schmidt of the columns of p[rows, rank]. A column that the others already span is
 * left zero. */
static void make_orthonormal(float *p, size_t rows, size_t rank)
{
    for (size_t c = 0; c < rank; c++) {
        double before = 0, squares = 0;
        for (size_t r = 0; r < rows; r++)
            before += (double)p[r * rank + c] * (double)p[r * rank + c];
        for (size_t other = 0; other < c; other++) {
            double dot = 0;
            for (size_t r = 0; r < rows; r++)
                dot += (double)p[r * rank + c] * (double)p[r * rank + other];
            for (size_t r = 0; r < rows; r++)
                p[r * rank + c] -= (float)(dot * (double)p[r * rank + other]);
        }
        for (size_t r = 0; r < rows; r++)
            squares += (double)p[r * rank + c] * (double)p[r * rank + c];
        /* What is left of a dependent column is rounding alone. */
        double scale = squares > 1e-10 * before ? 1 / sqrt(squares) : 0;
        for (size_t r = 0; r < rows; r++)
            p[r * rank + c] = (float)(scale * (double)p[r * rank + c]);
    }
}

/* A factor of zeros would stay zero: restart such a column, equally on every rank. */
static void revive(const struct powersgd *hook, int index, float *q)
{
    const struct powersgd_shape *s = &hook->matrices[index].shape;
    for (size_t c = 0; c < s->rank; c++) {
        bool zero = true;
        for (size_t r = 0; r < s->cols && zero; r++)
            zero = q[r * s->rank + c] == 0;
        for (size_t r = 0; r < s->cols && zero; r++) {
            double pair[2];
            uint64_t key = random_key(hook->options.seed + (uint64_t)hook->passes,
                                      hook->model.params[index].name);
            random_normal_pair(key, r * s->rank + c, pair);
            q[r * s->rank + c] = (float)pair[0];
        }
    }
}

static size_t sum_length(const struct powersgd *hook, int index)
{
    const struct powersgd_shape *s = &hook->matrices[index].shape;
    return s->compressed ? s->rows * s->rank : hook->model.params[index].count;
}

static size_t q_length(const struct powersgd *hook, int index)
{
    const struct powersgd_shape *s = &hook->matrices[index].shape;
    return s->compressed ? s->cols * s->rank : 0;
}

/* Forget the errors of this parameter's steps. */
static void forget(struct powersgd *hook, int index)
{
    const struct param *param = &hook->model.params[index];
    memset(hook->error + param->offset, 0, param->count * sizeof(float));
    powersgd_first(hook->factors + hook->matrices[index].q_at, q_length(hook, index),
                   hook->options.seed, param->name);
}

static void find_params(const struct powersgd *hook, struct part *part)
{
    size_t from = (size_t)(part->gradients->data - hook->model.grads);
    size_t to = from + part->gradients->count;
    for (int i = 0; i < hook->model.n_params; i++) {
        const struct param *param = &hook->model.params[i];
        if (param->offset < from || param->offset >= to)
            continue;
        part->first = part->n ? part->first : i;
        part->n++;
        part->sums_count += sum_length(hook, i);
        part->q_count += q_length(hook, i);
    }
}

/* M and its P, or the gradient itself, to what is summed first. */
static int begin(struct powersgd *hook, struct wk_comm *comm, struct part *part)
{
    const struct hook_model *model = &hook->model;
    find_params(hook, part);
    part->sums = hook->room + hook->taken;
    part->q = part->sums + part->sums_count;
    hook->taken += part->sums_count + part->q_count;
    float *at = part->sums;
    for (int i = part->first; i < part->first + part->n; i++) {
        const struct param *param = &model->params[i];
        const struct powersgd_shape *s = &hook->matrices[i].shape;
        const float *gradient = model->grads + param->offset;
        if (s->compressed) {
            model->kernels->add(hook->error + param->offset, gradient, param->count);
            model->kernels->gemm(&(struct kernel_gemm){
                .m = (int64_t)s->rows,
                .n = (int64_t)s->rank,
                .k = (int64_t)s->cols,
                .alpha = 1,
                .a = hook->error + param->offset,
                .lda = (int64_t)s->cols,
                .b = hook->factors + hook->matrices[i].q_at,
                .ldb = (int64_t)s->rank,
                .c = at,
                .ldc = (int64_t)s->rank,
            });
        } else {
            memcpy(at, gradient, param->count * sizeof(float));
        }
        at += sum_length(hook, i);
    }
    return wk_all_reduce(comm, part->sums, part->sums_count, WK_F32, WK_SUM, &part->work);
}

/* The first sums are there: Q of each matrix. */
static int go_on(struct powersgd *hook, struct wk_comm *comm, struct part *part)
{
    const struct hook_model *model = &hook->model;
    int rc = wk_wait(part->work);
    part->work = NULL;
    part->second = true;
    if (rc)
        return rc;
    float *p = part->sums, *q = part->q;
    for (int i = part->first; i < part->first + part->n; i++) {
        const struct param *param = &model->params[i];
        const struct powersgd_shape *s = &hook->matrices[i].shape;
        if (s->compressed) {
            make_orthonormal(p, s->rows, s->rank);
            model->kernels->gemm(&(struct kernel_gemm){
                .transpose_a = true,
                .m = (int64_t)s->cols,
                .n = (int64_t)s->rank,
                .k = (int64_t)s->rows,
                .alpha = 1,
                .a = hook->error + param->offset,
                .lda = (int64_t)s->cols,
                .b = p,
                .ldb = (int64_t)s->rank,
                .c = q,
                .ldc = (int64_t)s->rank,
            });
        } else {
            memcpy(model->grads + param->offset, p, param->count * sizeof(float));
        }
        p += sum_length(hook, i);
        q += q_length(hook, i);
    }
    return wk_all_reduce(comm, part->q, part->q_count, WK_F32, WK_SUM, &part->work);
}

/* The next step's start. A gradient that was not finite on any rank has made all of Q so on every
 * rank: nothing of it is carried on. */
static void remember(struct powersgd *hook, int index, float *q)
{
    size_t length = q_length(hook, index);
    if (!isfinite(hook->model.kernels->sum_squares(q, length))) {
        forget(hook, index);
        return;
    }
    revive(hook, index, q);
    memcpy(hook->factors + hook->matrices[index].q_at, q, length * sizeof(*q));
}

/* Both factors are all ranks': the result, and what it leaves out. */
static int end(struct powersgd *hook, struct part *part)
{
    const struct hook_model *model = &hook->model;
    int rc = wk_wait(part->work);
    part->work = NULL;
    if (rc)
        return rc;
    float *p = part->sums, *q = part->q, share = 1.0f / (float)hook->world;
    for (int i = part->first; i < part->first + part->n; i++) {
        const struct param *param = &model->params[i];
        const struct powersgd_shape *s = &hook->matrices[i].shape;
        float *result = model->grads + param->offset, *error = hook->error + param->offset;
        if (s->compressed) {
            model->kernels->gemm(&(struct kernel_gemm){
                .transpose_b = true,
                .m = (int64_t)s->rows,
                .n = (int64_t)s->cols,
                .k = (int64_t)s->rank,
                .alpha = 1,
                .a = p,
                .lda = (int64_t)s->rank,
                .b = q,
                .ldb = (int64_t)s->rank,
                .c = result,
                .ldc = (int64_t)s->cols,
            });
            for (size_t j = 0; j < param->count; j++)
                error[j] -= share * result[j];
            remember(hook, i, q);
        }
        p += sum_length(hook, i);
        q += q_length(hook, i);
    }
    return 0;
}

static bool warming_up(const struct powersgd *hook)
{
    return hook->passes <= hook->options.warm_up;
}

static int start(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    struct powersgd *hook = arg;
    struct part *part = &hook->parts[gradients->index];
    if (gradients->index == 0) {
        hook->passes++;
        hook->taken = 0;
    }
    *part = (struct part){.gradients = gradients};
    gradients->own = part;
    if (warming_up(hook))
        return wk_all_reduce(comm, gradients->data, gradients->count, WK_F32, WK_SUM, &part->work);
    int rc = begin(hook, comm, part);
    if (gradients->index == 0)
        return rc;
    part[-1].failure = go_on(hook, comm, &part[-1]);
    return rc ? rc : part[-1].failure;
}

static int finish(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    struct powersgd *hook = arg;
    struct part *part = gradients->own;
    if (warming_up(hook))
        return wk_wait(part->work);
    if (!part->second)
        part->failure = go_on(hook, comm, part);
    return part->failure ? part->failure : end(hook, part);
}

/* Rescale the error to the scale of the gradients it is added to. */
static void scaled(void *arg, double scale)
{
    struct powersgd *hook = arg;
    if (scale != hook->scale)
        hook->model.kernels->scale(hook->error, (float)(scale / hook->scale), hook->model.count);
    hook->scale = scale;
}

static int meet(void *arg, struct wk_comm *comm)
{
    struct powersgd *hook = arg;
    hook->passes = 0;
    hook->world = wk_comm_world(comm);
    for (int i = 0; i < hook->model.n_params; i++)
        forget(hook, i);
    return wk_comm_register(comm, hook->arena);
}

static void powersgd_free(void *arg)
{
    struct powersgd *hook = arg;
    free(hook->matrices);
    free(hook->parts);
    free(hook->error);
    free(hook->factors);
    wk_arena_free(hook->arena);
    free(hook);
}

static int allocate(struct powersgd *hook)
{
    size_t n = (size_t)hook->model.n_params, room = 0;
    hook->matrices = calloc(n, sizeof(*hook->matrices));
    hook->parts = calloc(n, sizeof(*hook->parts));
    hook->error = calloc(hook->model.count, sizeof(*hook->error));
    if (!hook->matrices || !hook->parts || !hook->error)
        return WK_ENOMEM;
    for (int i = 0; i < hook->model.n_params; i++) {
        hook->matrices[i].shape = powersgd_shape(&hook->model.params[i], hook->options.rank);
        hook->matrices[i].q_at = hook->factors_count;
        hook->factors_count += q_length(hook, i);
        room += sum_length(hook, i) + q_length(hook, i);
    }
    hook->factors = calloc(hook->factors_count + 1, sizeof(*hook->factors));
    if (!hook->factors || wk_arena_new(room * sizeof(float), &hook->arena))
        return WK_ENOMEM;
    hook->room = wk_arena_data(hook->arena);
    return 0;
}

int hook_powersgd_new(const struct hook_model *model, const struct powersgd_options *options,
                      struct grad_hook *ret, struct error *err)
{
    struct powersgd *hook = calloc(1, sizeof(*hook));
    if (!hook)
        return error_set(err, WK_ENOMEM, "no memory for PowerSGD");
    hook->model = *model;
    hook->options = *options;
    hook->scale = 1;
    if (allocate(hook)) {
        powersgd_free(hook);
        return error_set(err, WK_ENOMEM, "no memory for PowerSGD of %zu gradients", model->count);
    }
    *ret = (struct grad_hook){
        .face = {"powersgd", start, finish, hook},
        .meet = meet,
        .scaled = scaled,
        .free = powersgd_free,
    };
    return 0;
}
