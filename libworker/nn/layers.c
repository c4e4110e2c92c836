/* The layers of worker/layers.h: checked, and given to those that the models use. */
#include <math.h>
#include <stdlib.h>

#include <worker/error.h>
#include <worker/layers.h>
#include <worker/nn.h>

#include "libworker/nn/attention.h"
#include "libworker/nn/conv.h"
#include "libworker/nn/linear.h"
#include "libworker/nn/loss.h"
#include "libworker/nn/norm.h"

enum { SIZE_MOST = 1 << 30 }; /* products of two stay far from the end of int64_t */

struct size {
    const char *name; /* NULL ends a list */
    int64_t value, least;
};

static int refuse(int code, const char *layer, const char *what)
{
    struct error err = {0};
    (void)error_set(&err, code, "%s: %s", layer, what);
    return error_keep(&err);
}

static int check(const char *layer, const struct size *sizes)
{
    struct error err = {0};
    for (; sizes->name; sizes++)
        if (sizes->value < sizes->least || sizes->value > SIZE_MOST) {
            (void)error_set(&err, WK_EINVAL, "%s: %s is %lld, outside %lld to %d", layer,
                            sizes->name, (long long)sizes->value, (long long)sizes->least,
                            SIZE_MOST);
            return error_keep(&err);
        }
    return 0;
}

/* `ignored` may stand there too. */
static int check_indices(const char *what, const int32_t *indices, const int64_t count_below[2],
                         int32_t ignored)
{
    struct error err = {0};
    for (int64_t i = 0; i < count_below[0]; i++)
        if ((indices[i] < 0 || indices[i] >= count_below[1]) && indices[i] != ignored) {
            (void)error_set(&err, WK_EINVAL, "%s %d at position %lld is outside 0 to %lld", what,
                            (int)indices[i], (long long)i, (long long)count_below[1] - 1);
            return error_keep(&err);
        }
    return 0;
}

/* --- linear */

static int linear_of(const struct wk_linear *l, int64_t rows, struct linear *ret)
{
    const struct size sizes[] = {{"in", l->in, 1}, {"out", l->out, 1}, {"rows", rows, 0}, {0}};
    *ret = (struct linear){.kernels = kernel_cpu(),
                           .in = l->in,
                           .out = l->out,
                           .turned = l->turned,
                           .weight = l->weight,
                           .bias = l->bias,
                           .dweight = l->dweight,
                           .dbias = l->dbias};
    return check("a linear layer", sizes);
}

int wk_linear_forward(const struct wk_linear *linear, float *y, const float *x, int64_t rows)
{
    struct linear l;
    int rc = linear_of(linear, rows, &l);
    if (!rc)
        linear_forward(&l, y, (struct operand){.data = (float *)x}, NULL, rows);
    return rc;
}

int wk_linear_backward(const struct wk_linear *linear, float *dx, const float *x, const float *dy,
                       int64_t rows)
{
    struct linear l;
    int rc = linear_of(linear, rows, &l);
    if (!rc)
        linear_backward(&l, dx, (struct operand){.data = (float *)x}, dy, rows);
    return rc;
}

/* --- embedding */

static int check_embedding(const struct wk_embedding *e, const int32_t *tokens, int64_t count)
{
    const struct size sizes[] = {{"vocab", e->vocab, 1},
                                 {"width", e->width, 1},
                                 {"length", e->length, e->positions != NULL},
                                 {"count", count, 0},
                                 {0}};
    int rc = check("an embedding", sizes);
    return rc ? rc : check_indices("token", tokens, (int64_t[]){count, e->vocab}, 0);
}

static int64_t length_of(const struct wk_embedding *e)
{
    return e->length > 0 ? e->length : 1; /* counts for nothing without positions */
}

int wk_embedding_forward(const struct wk_embedding *e, float *y, const int32_t *tokens,
                         int64_t count)
{
    int rc = check_embedding(e, tokens, count);
    if (!rc)
        kernel_cpu()->embedding_forward(y, tokens, e->table, e->positions,
                                        (int64_t[]){count, length_of(e), e->width});
    return rc;
}

int wk_embedding_backward(const struct wk_embedding *e, const int32_t *tokens, const float *dy,
                          int64_t count)
{
    int rc = check_embedding(e, tokens, count);
    if (!rc)
        kernel_cpu()->embedding_backward(e->dtable, e->dpositions, tokens, dy,
                                         (int64_t[]){count, length_of(e), e->width});
    return rc;
}

/* --- norms */

static int norm_of(const struct wk_norm *n, int64_t rows, struct norm *ret)
{
    const struct size sizes[] = {{"width", n->width, 1}, {"rows", rows, 0}, {0}};
    *ret = (struct norm){.kernels = kernel_cpu(),
                         .width = n->width,
                         .epsilon = (float)n->epsilon,
                         .weight = n->weight,
                         .bias = n->bias,
                         .dweight = n->dweight,
                         .dbias = n->dbias,
                         .mean = n->mean,
                         .rstd = n->rstd};
    int rc = check("a norm", sizes);
    return rc || n->epsilon > 0 ? rc : refuse(WK_EINVAL, "a norm", "epsilon must be above 0");
}

int wk_norm_forward(const struct wk_norm *norm, float *y, const float *x, int64_t rows)
{
    struct norm n;
    int rc = norm_of(norm, rows, &n);
    if (!rc)
        norm_forward(&n, y, x, rows);
    return rc;
}

int wk_norm_backward(const struct wk_norm *norm, float *dx, const float *x, const float *dy,
                     int64_t rows)
{
    struct norm n;
    int rc = norm_of(norm, rows, &n);
    if (rc)
        return rc;
    n.kernels->fill(dx, 0, (size_t)(rows * n.width));
    norm_backward(&n, dx, x, dy, rows);
    return 0;
}

/* --- attention */

static int attention_of(const struct wk_attention *a, const float *qkv, struct attention *ret)
{
    const struct size sizes[] = {{"samples", a->samples, 0}, {"length", a->length, 1},
                                 {"heads", a->heads, 1},     {"kv_heads", a->kv_heads, 1},
                                 {"size", a->size, 1},       {0}};
    *ret = (struct attention){.kernels = kernel_cpu(),
                              .samples = a->samples,
                              .length = a->length,
                              .heads = a->heads,
                              .kv_heads = a->kv_heads,
                              .size = a->size,
                              .qkv = qkv,
                              .probs = a->probs};
    int rc = check("attention", sizes);
    return rc || a->heads % a->kv_heads == 0
               ? rc
               : refuse(WK_EINVAL, "attention", "kv_heads does not divide heads");
}

int wk_attention_forward(const struct wk_attention *attention, float *out, const float *qkv)
{
    struct attention a;
    int rc = attention_of(attention, qkv, &a);
    if (!rc)
        attention_forward(&a, out);
    return rc;
}

int wk_attention_backward(const struct wk_attention *attention, float *dqkv, const float *qkv,
                          const float *dout)
{
    struct attention a;
    int rc = attention_of(attention, qkv, &a);
    if (rc)
        return rc;
    a.scratch = calloc((size_t)a.length * ATTENTION_BLOCK, sizeof(*a.scratch));
    if (!a.scratch)
        return refuse(WK_ENOMEM, "attention", "no memory for a block of probabilities");
    attention_backward(&a, dqkv, dout);
    free(a.scratch);
    return 0;
}

/* --- rotary positions */

int wk_rope(const struct wk_rope *r, float *x, int64_t rows, bool back)
{
    const struct size sizes[] = {{"length", r->length, 1}, {"heads", r->heads, 1},
                                 {"size", r->size, 2},     {"stride", r->stride, 1},
                                 {"rows", rows, 0},        {0}};
    int rc = check("rotary positions", sizes);
    if (!rc && r->size % 2)
        rc = refuse(WK_EINVAL, "rotary positions", "size is odd");
    if (!rc && r->heads * r->size > r->stride)
        rc = refuse(WK_EINVAL, "rotary positions", "the heads do not fit a row (stride)");
    if (!rc)
        kernel_cpu()->rope(&(struct kernel_rope){rows, r->length, r->heads, r->size, r->stride,
                                                 r->cos, r->sin, back},
                           x);
    return rc;
}

/* Su et al. 2021, section 3.2.2. */
void wk_rope_angles(float *cos_, float *sin_, int64_t length, int64_t size, double theta)
{
    int64_t half = size / 2;
    for (int64_t p = 0; p < length; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * pow(theta, -(double)i / (double)half);
            cos_[p * half + i] = (float)cos(angle);
            sin_[p * half + i] = (float)sin(angle);
        }
}

/* --- activations */

void wk_gelu_forward(float *y, const float *x, size_t count)
{
    kernel_cpu()->gelu_forward(y, x, count);
}

void wk_gelu_backward(float *dx, const float *x, const float *dy, size_t count)
{
    kernel_cpu()->gelu_backward(dx, x, dy, count);
}

void wk_swiglu_forward(float *y, const float *x, int64_t rows, int64_t inner)
{
    kernel_cpu()->swiglu_forward(y, x, rows, inner);
}

void wk_swiglu_backward(float *dx, const float *x, const float *dy, int64_t rows, int64_t inner)
{
    kernel_cpu()->swiglu_backward(dx, x, dy, (const int64_t[]){rows, inner});
}

/* --- convolution */

static int conv_of(const struct wk_conv *c, struct conv *ret)
{
    const struct size sizes[] = {
        {"samples", c->samples, 0}, {"channels", c->channels, 1}, {"height", c->height, 1},
        {"width", c->width, 1},     {"out", c->out, 1},           {"kernel", c->kernel, 1},
        {"stride", c->stride, 1},   {"padding", c->padding, 0},   {0}};
    int rc = check("a convolution", sizes);
    if (rc)
        return rc;
    *ret = (struct conv){
        .kernels = kernel_cpu(),
        .windows = {c->channels, c->height, c->width, c->kernel, c->stride, c->padding},
        .samples = c->samples,
        .out = c->out,
        .weight = c->weight,
        .bias = c->bias,
        .dweight = c->dweight,
        .dbias = c->dbias};
    return conv_places(ret) > 0
               ? 0
               : refuse(WK_EINVAL, "a convolution", "the kernel is larger than the padded image");
}

int wk_conv_size(const struct wk_conv *conv, int64_t *ret_height, int64_t *ret_width)
{
    struct conv c;
    int rc = conv_of(conv, &c);
    if (rc)
        return rc;
    *ret_height = (conv->height + 2 * conv->padding - conv->kernel) / conv->stride + 1;
    *ret_width = (conv->width + 2 * conv->padding - conv->kernel) / conv->stride + 1;
    return 0;
}

/* With room for the windows of one sample, to be freed. */
static int conv_open(const struct wk_conv *conv, struct conv *ret)
{
    int rc = conv_of(conv, ret);
    if (rc)
        return rc;
    const struct kernel_windows *w = &ret->windows;
    ret->rows = calloc((size_t)(conv_places(ret) * w->kernel * w->kernel),
                       (size_t)w->channels * sizeof(*ret->rows));
    return ret->rows ? 0 : refuse(WK_ENOMEM, "a convolution", "no memory for its windows");
}

int wk_conv_forward(const struct wk_conv *conv, float *y, const float *x)
{
    struct conv c;
    int rc = conv_open(conv, &c);
    if (rc)
        return rc;
    conv_forward(&c, y, x);
    free(c.rows);
    return 0;
}

int wk_conv_backward(const struct wk_conv *conv, float *dx, const float *x, const float *dy)
{
    struct conv c;
    int rc = conv_open(conv, &c);
    if (rc)
        return rc;
    if (dx)
        c.kernels->fill(
            dx, 0, (size_t)(conv->samples * conv->channels * conv->height) * (size_t)conv->width);
    conv_backward(&c, dx, x, dy);
    free(c.rows);
    return 0;
}

/* --- losses */

static int entropy_of(const struct wk_cross_entropy *e, struct kernel_entropy *ret)
{
    const struct size sizes[] = {{"rows", e->rows, 0}, {"classes", e->classes, 1}, {0}};
    *ret = (struct kernel_entropy){e->rows, e->classes, e->targets, (float)e->smoothing};
    int rc = check("cross-entropy", sizes);
    if (!rc && !(e->smoothing >= 0 && e->smoothing < 1))
        rc = refuse(WK_EINVAL, "cross-entropy", "smoothing must be in [0, 1)");
    return rc ? rc
              : check_indices("target", e->targets, (int64_t[]){e->rows, e->classes}, WK_IGNORED);
}

int wk_cross_entropy_forward(const struct wk_cross_entropy *entropy, float *x, double *ret_loss)
{
    struct kernel_entropy e;
    int rc = entropy_of(entropy, &e);
    if (!rc)
        *ret_loss = kernel_cpu()->cross_entropy_forward(&e, x);
    return rc;
}

int wk_cross_entropy_backward(const struct wk_cross_entropy *entropy, float *x, double scale)
{
    struct kernel_entropy e;
    int rc = entropy_of(entropy, &e);
    if (!rc)
        kernel_cpu()->cross_entropy_backward(&e, x, (float)scale);
    return rc;
}

double wk_square_loss_forward(float *difference, const float *x, const float *target, size_t count)
{
    return square_loss_forward(kernel_cpu(), difference, x, target, count);
}

void wk_square_loss_backward(float *dx, const float *difference, double scale, size_t count)
{
    square_loss_backward(kernel_cpu(), dx, difference, (float)scale, count);
}
