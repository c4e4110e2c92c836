/* The feed-forward language model of Bengio et al. 2003: block 0 the embedding, block 1 + i hidden
 * layer i, the last block the head. N = samples * length rows, E = embedding, W = window * E.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "libworker/nn/linear.h"
#include "libworker/nn/outputs.h"
#include "libworker/nn/param.h"
#include "libworker/tensor/slab.h"

enum {
    LAYERS_MAX = 1024,
    WINDOW_MAX = 1024,
    WIDTH_MAX = 65536,
    CONTEXT_MAX = 1 << 20,
    VOCAB_MAX = 1 << 24,
    TABLE = 0,
};

struct mlp_model {
    struct wk_model model; /* first */
    struct wk_mlp_config config;
    int64_t rows;      /* of the pass the memory is laid out for */
    bool low;          /* likewise */
    float *window;     /* [N, W]; its gradient backward */
    float **hidden;    /* [layers][N, width], before GELU */
    float **active;    /* [layers][N, width], after it */
    float *logits;     /* [N, vocab] */
    float *dx, *dnext; /* [N, width] each */
    float *low_room;
    struct slab slab;
};

static struct mlp_model *mlp_of(struct wk_model *model)
{
    return (struct mlp_model *)model;
}

static int64_t window_width(const struct mlp_model *m)
{
    return (int64_t)m->config.window * m->config.embedding;
}

static void view(struct slab *slab, size_t *total, float **ret_view, int64_t count)
{
    *total += slab_rounded((size_t)count);
    if (slab)
        *ret_view = slab_take(slab, (size_t)count);
}

static size_t lay_out(struct mlp_model *m, struct slab *slab)
{
    size_t total = 0;
    int64_t n = m->rows, width = m->config.width, vocab = m->config.vocab;
    int64_t widest = window_width(m) > width ? window_width(m) : width;
    widest = widest > vocab ? widest : vocab;
    view(slab, &total, &m->window, n * window_width(m));
    for (int i = 0; i < m->config.layers; i++) {
        view(slab, &total, &m->hidden[i], n * width);
        view(slab, &total, &m->active[i], n * width);
    }
    view(slab, &total, &m->logits, n * vocab);
    view(slab, &total, &m->dx, n * width);
    view(slab, &total, &m->dnext, n * width);
    if (m->low)
        view(slab, &total, &m->low_room, n * widest + 1);
    if (slab && m->low) {
        m->model.low_storage.left = (uint16_t *)m->low_room;
        m->model.low_storage.right = m->model.low_storage.left + n * widest;
    }
    return total;
}

static int reserve(struct mlp_model *m, int64_t rows, struct error *err)
{
    bool low = m->model.low != NULL;
    if (m->rows == rows && m->low == low)
        return 0;
    m->rows = rows;
    m->low = low;
    int rc = slab_reset(&m->slab, lay_out(m, NULL), err);
    if (rc) {
        m->rows = 0;
        return error_wrap(err, "activations of %lld tokens", (long long)rows);
    }
    (void)lay_out(m, &m->slab);
    return 0;
}

/* Row r's window ends with token r of its sample; before the sample it is zero. */
static void gather(struct mlp_model *m, const struct wk_batch *batch)
{
    int64_t e = m->config.embedding, window = m->config.window;
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t w = 0; w < window; w++) {
            float *place = m->window + (r * window + w) * e;
            int64_t back = window - 1 - w;
            if (r % batch->length < back)
                m->model.kernels->fill(place, 0, (size_t)e);
            else
                model_look_up(&m->model, &m->model.params[TABLE], batch->tokens[r - back], place);
        }
    }
}

static void scatter(struct mlp_model *m, const float *dwindow)
{
    int64_t e = m->config.embedding, window = m->config.window;
    const struct wk_batch *batch = &m->model.batch;
    float *dtable = m->model.params[TABLE].grad;
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t w = 0; w < window; w++) {
            int64_t back = window - 1 - w;
            if (r % batch->length >= back)
                m->model.kernels->add(dtable + batch->tokens[r - back] * e,
                                      dwindow + (r * window + w) * e, (size_t)e);
        }
    }
}

/* Layer i of `layers` hidden ones; i == layers is the head. */
static struct linear layer_at(struct mlp_model *m, int i)
{
    return linear_at(&m->model, 1 + 2 * i);
}

static struct operand input_of(const struct mlp_model *m, int i)
{
    return (struct operand){.data = i ? m->active[i - 1] : m->window};
}

static int layer_forward(struct mlp_model *m, int i, struct error *err)
{
    int rc = model_enter(&m->model, 1 + i, MODEL_FORWARD, err);
    if (rc)
        return rc;
    struct linear linear = layer_at(m, i);
    bool head = i == m->config.layers;
    linear_forward(&linear, head ? m->logits : m->hidden[i], input_of(m, i), NULL, m->rows);
    if (!head)
        m->model.kernels->gelu_forward(m->active[i], m->hidden[i],
                                       (size_t)(m->rows * m->config.width));
    return model_leave(&m->model, 1 + i, MODEL_FORWARD, err);
}

static int all_forward(struct mlp_model *m, const struct wk_batch *batch, struct error *err)
{
    int rc = reserve(m, batch->samples * batch->length, err);
    rc = rc ? rc : model_enter(&m->model, 0, MODEL_FORWARD, err);
    if (rc)
        return rc;
    gather(m, batch);
    rc = model_leave(&m->model, 0, MODEL_FORWARD, err);
    for (int i = 0; i <= m->config.layers && !rc; i++)
        rc = layer_forward(m, i, err);
    return rc;
}

static struct kernel_entropy entropy_of(const struct mlp_model *m)
{
    return (struct kernel_entropy){m->rows, m->config.vocab, m->model.batch.targets,
                                   m->model.label_smoothing};
}

static int mlp_model_forward(struct wk_model *model, const struct wk_batch *batch, double *ret_loss,
                             struct error *err)
{
    struct mlp_model *m = mlp_of(model);
    int rc = all_forward(m, batch, err);
    if (rc)
        return rc;
    struct kernel_entropy entropy = entropy_of(m);
    *ret_loss = model->kernels->cross_entropy_forward(&entropy, m->logits) / batch->denominator;
    return 0;
}

/* From the gradient of layer i's output to that of its input; the window's gradient overwrites it.
 */
static int layer_backward(struct mlp_model *m, int i, float **dout, float **din, struct error *err)
{
    int rc = model_enter(&m->model, 1 + i, MODEL_BACKWARD, err);
    if (rc)
        return rc;
    struct linear linear = layer_at(m, i);
    bool head = i == m->config.layers;
    if (!head)
        m->model.kernels->gelu_backward(*dout, m->hidden[i], *dout,
                                        (size_t)(m->rows * m->config.width));
    linear_backward(&linear, i ? *din : m->window, input_of(m, i), head ? m->logits : *dout,
                    m->rows);
    float *next = *din;
    *din = *dout;
    *dout = next;
    return model_leave(&m->model, 1 + i, MODEL_BACKWARD, err);
}

static int mlp_model_backward(struct wk_model *model, float scale, struct error *err)
{
    struct mlp_model *m = mlp_of(model);
    struct kernel_entropy entropy = entropy_of(m);
    float *dout = m->dx, *din = m->dnext;
    int rc = 0;
    model->kernels->cross_entropy_backward(&entropy, m->logits, scale);
    for (int i = m->config.layers; i >= 0 && !rc; i--)
        rc = layer_backward(m, i, &dout, &din, err);
    rc = rc ? rc : model_enter(model, 0, MODEL_BACKWARD, err);
    if (rc)
        return rc;
    scatter(m, m->window);
    model_announce(model, TABLE);
    return model_leave(model, 0, MODEL_BACKWARD, err);
}

static int mlp_model_evaluate(struct wk_model *model, const struct wk_batch *batch,
                              double *ret_loss, const struct wk_outputs *outputs, struct error *err)
{
    struct mlp_model *m = mlp_of(model);
    int rc = all_forward(m, batch, err);
    if (rc)
        return rc;
    struct kernel_entropy entropy = {m->rows, m->config.vocab, batch->targets, 0};
    *ret_loss = outputs_take(model->kernels, &entropy, m->logits, outputs) / batch->denominator;
    return 0;
}

static int mlp_model_logits(struct wk_model *model, const struct wk_batch *batch, float *ret_logits,
                            struct error *err)
{
    struct mlp_model *m = mlp_of(model);
    int64_t vocab = m->config.vocab;
    int rc = all_forward(m, batch, err);
    for (int64_t i = 0; i < batch->samples && !rc; i++)
        memcpy(ret_logits + i * vocab, m->logits + ((i + 1) * batch->length - 1) * vocab,
               (size_t)vocab * sizeof(*ret_logits));
    return rc;
}

static int mlp_model_reserve(struct wk_model *model, int64_t samples, int64_t length,
                             struct error *err)
{
    struct mlp_model *m = mlp_of(model);
    if (samples == 0) {
        slab_fini(&m->slab);
        m->rows = 0;
        return 0;
    }
    int rc = reserve(m, samples * length, err);
    if (!rc)
        slab_touch(&m->slab);
    return rc;
}

static void mlp_model_free(struct wk_model *model)
{
    struct mlp_model *m = mlp_of(model);
    param_table_fini(model);
    slab_fini(&m->slab);
    free(m->hidden);
    free(m->active);
    free(m);
}

static const struct model_ops mlp_ops = {
    .name = "mlp",
    .forward = mlp_model_forward,
    .backward = mlp_model_backward,
    .evaluate = mlp_model_evaluate,
    .logits = mlp_model_logits,
    .free = mlp_model_free,
    .reserve = mlp_model_reserve,
};

static void add_params(struct wk_model *model, const struct wk_mlp_config *c)
{
    struct param_spec spec = {.rows = c->vocab,
                              .cols = c->embedding,
                              .init = PARAM_NORMAL,
                              .init_std = 1,
                              .lookup = true};
    param_table_add(model, &spec, "embed.weight");
    spec.lookup = false;
    spec.rows = (int64_t)c->window * c->embedding;
    for (int i = 0; i <= c->layers; i++) {
        bool head = i == c->layers;
        spec.cols = head ? c->vocab : c->width;
        spec.block = 1 + i;
        spec.init_std = 1 / sqrtf((float)spec.rows); /* LeCun et al. 1998: outputs like inputs */
        struct param_spec bias = {.rows = spec.cols, .block = spec.block, .init = PARAM_ZERO};
        if (head) {
            param_table_add(model, &spec, "head.weight");
            param_table_add(model, &bias, "head.bias");
        } else {
            param_table_add(model, &spec, "layers.%d.weight", i);
            param_table_add(model, &bias, "layers.%d.bias", i);
        }
        spec.rows = c->width;
    }
}

static int check(const struct wk_mlp_config *c, struct error *err)
{
    if (!c)
        return error_set(err, WK_EINVAL, "a model's config is NULL");
    const struct {
        const char *name;
        int64_t value, max;
    } bounds[] = {{"layers", c->layers, LAYERS_MAX},      {"window", c->window, WINDOW_MAX},
                  {"embedding", c->embedding, WIDTH_MAX}, {"width", c->width, WIDTH_MAX},
                  {"context", c->context, CONTEXT_MAX},   {"vocab", c->vocab, VOCAB_MAX}};
    int rc = 0;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]) && !rc; i++)
        rc = number_within(bounds[i].name, bounds[i].value, 1, bounds[i].max, err);
    return rc;
}

int wk_mlp_new(const struct wk_mlp_config *config, struct wk_model **ret_model)
{
    struct error err = {0};
    if (check(config, &err))
        return model_refuse(&err, ret_model);
    struct mlp_model *m = calloc(1, sizeof(*m));
    if (!m)
        return model_refuse_memory(ret_model);
    m->config = *config;
    m->model.ops = &mlp_ops;
    m->model.kernels = kernel_cpu();
    m->model.context = config->context;
    m->model.vocab = config->vocab;
    m->model.n_blocks = config->layers + 2;
    m->hidden = calloc((size_t)config->layers, sizeof(*m->hidden));
    m->active = calloc((size_t)config->layers, sizeof(*m->active));
    if (!m->hidden || !m->active || param_table_init(&m->model, 3 + 2 * config->layers)) {
        mlp_model_free(&m->model);
        return model_refuse_memory(ret_model);
    }
    add_params(&m->model, config);
    *ret_model = &m->model;
    return 0;
}
