/* Operations on elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/random.h"
#include "tests/numeric/graph/harness.h"

/* b's element for element i of a. */
static int64_t repeated(const struct op_tensor *a, const struct op_tensor *b, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = a->dims - 1, e = b->dims - 1; e >= 0; d--, e--) {
        at += b->shape[e] == 1 ? 0 : i % a->shape[d] * stride;
        stride *= b->shape[e];
        i /= a->shape[d];
    }
    return at;
}

static void binary_reference(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        double a = r->in[0][i], b = r->in[1][repeated(&r->call->in[0], &r->call->in[1], i)];
        r->out[i] = r->c->row[0] == 'a' ? a + b : r->c->row[0] == 's' ? a - b : a * b;
    }
}

static struct wk_tensor *add(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_add(in[0], in[1]);
}

static struct wk_tensor *subtract(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_subtract(in[0], in[1]);
}

static struct wk_tensor *multiply(const struct op_case *c, struct wk_tensor *const *in)
{
    (void)c;
    return wk_op_multiply(in[0], in[1]);
}

/* Functions of one element, by their names. */
static double formula_of(const struct op_case *c, double x)
{
    if (!strcmp(c->row, "gelu"))
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    if (!strcmp(c->row, "gelu_erf"))
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    if (!strcmp(c->row, "relu"))
        return x > 0 ? x : 0;
    if (!strcmp(c->row, "leaky_relu"))
        return x > 0 ? x : c->number * x;
    if (!strcmp(c->row, "silu"))
        return x / (1 + exp(-x));
    if (!strcmp(c->row, "tanh"))
        return tanh(x);
    if (!strcmp(c->row, "sigmoid"))
        return 1 / (1 + exp(-x));
    return c->number * x;
}

static void formula(const struct reference *r)
{
    for (int64_t i = 0; i < r->call->out[0].count; i++)
        r->out[i] = formula_of(r->c, r->in[0][i]);
}

#define UNARY(name)                                                                                \
    static struct wk_tensor *build_##name(const struct op_case *c, struct wk_tensor *const *in)    \
    {                                                                                              \
        (void)c;                                                                                   \
        return wk_op_##name(in[0]);                                                                \
    }
UNARY(gelu)
UNARY(gelu_erf)
UNARY(relu)
UNARY(silu)
UNARY(tanh)
UNARY(sigmoid)
UNARY(swiglu)
UNARY(softmax)

static struct wk_tensor *scale(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_scale(in[0], c->number);
}

static struct wk_tensor *leaky_relu(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_leaky_relu(in[0], c->number);
}

static struct wk_tensor *dropout(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_dropout(in[0], c->number);
}

static int64_t last_of(const struct op_tensor *x)
{
    return x->shape[x->dims - 1];
}

static void swiglu_reference(const struct reference *r)
{
    int64_t n = last_of(&r->call->out[0]);
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        double gate = r->in[0][i / n * 2 * n + i % n], up = r->in[0][i / n * 2 * n + n + i % n];
        r->out[i] = gate / (1 + exp(-gate)) * up;
    }
}

static void softmax_reference(const struct reference *r)
{
    int64_t n = last_of(&r->call->out[0]);
    for (int64_t at = 0; at < r->call->out[0].count; at += n) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, r->in[0][at + i]);
        for (int64_t i = 0; i < n; i++)
            sum += exp(r->in[0][at + i] - most);
        for (int64_t i = 0; i < n; i++)
            r->out[at + i] = exp(r->in[0][at + i] - most) / sum;
    }
}

/* The choice is drawn from its definition: by the sample's number, the block, the place and the
 * element, of which a key holds 2048. */
static void dropout_reference(const struct reference *r)
{
    enum { BLOCK = 2048 };
    int64_t each = r->call->out[0].count / r->samples;
    double share = r->c->number < 0 ? 0.25 : r->c->number;
    float ones[BLOCK];
    for (int64_t i = 0; i < r->call->out[0].count; i++) {
        int64_t place = i % each % BLOCK, left = each - i % each;
        if (place == 0) { /* all that a key holds, at once: this is called for every slope */
            uint64_t key = random_bits(7, (uint64_t)(i / each));
            key = random_bits(random_bits(key, 0), 0);
            key = random_bits(key, (uint64_t)(i % each));
            for (int k = 0; k < BLOCK; k++)
                ones[k] = 1;
            kernel_reference()->dropout(ones, (size_t)(left < BLOCK ? left : BLOCK), key,
                                        (float)(1 - share));
        }
        r->out[i] = ones[place] > 0 ? r->in[0][i] / (1 - share) : 0;
    }
}

static struct wk_tensor *convert(const struct op_case *c, struct wk_tensor *const *in)
{
    return wk_op_convert(in[0], (enum wk_dtype)c->option[0]);
}

static void convert_reference(const struct reference *r)
{
    memcpy(r->out, r->in[0], (size_t)r->call->out[0].count * sizeof(*r->out));
}

#define CONVERT(from, fill_, to)                                                                   \
    {                                                                                              \
        "convert", #from " to " #to, convert,                                                      \
            .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 420), fill_, .type = WK_##from}},              \
            .option = {WK_##to}, .reference = convert_reference                                    \
    }

#define WIDE WK_SHAPE(WK_SAMPLES, 700, 5)
#define TEXT WK_SHAPE(WK_SAMPLES, WK_LENGTH, 6)
#define BINARY(name, build_)                                                                       \
    {name, "equal", build_, .in = {{WIDE}, {WIDE}}, .reference = binary_reference},                \
        {name, "bias", build_, .in = {{WK_SHAPE(WK_SAMPLES, 3, 7)}, {WK_SHAPE(7), .param = true}}, \
         .reference = binary_reference},                                                           \
        {name, "positions", build_,                                                                \
         .in = {{WK_SHAPE(WK_SAMPLES, 3, 7)}, {WK_SHAPE(3, 7), .param = true}},                    \
         .reference = binary_reference},                                                           \
        {name, "channels", build_,                                                                 \
         .in = {{WK_SHAPE(WK_SAMPLES, 3, 2, 4)}, {WK_SHAPE(3, 1, 1), .param = true}},              \
         .reference = binary_reference},                                                           \
        {name, "one for each sample", build_,                                                      \
         .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 4)}, {WK_SHAPE(WK_SAMPLES, 1, 1)}},               \
         .reference = binary_reference},                                                           \
        {name, "middle", build_,                                                                   \
         .in = {{WK_SHAPE(WK_SAMPLES, 3, 2, 4)}, {WK_SHAPE(WK_SAMPLES, 1, 2, 1)}},                 \
         .reference = binary_reference},                                                           \
        {name, "a scalar", build_,                                                                 \
         .in = {{WK_SHAPE(WK_SAMPLES, 6)}, {WK_SHAPE(1), .param = true}},                          \
         .reference = binary_reference},                                                           \
        {name,                                                                                     \
         "many rows of eight",                                                                     \
         build_,                                                                                   \
         .in = {{WK_SHAPE(WK_SAMPLES, 700, 8)}, {WK_SHAPE(8), .param = true}},                     \
         .reference = binary_reference,                                                            \
         .roundings = 512},                                                                        \
        {name,                                                                                     \
         "many rows of five",                                                                      \
         build_,                                                                                   \
         .in = {{WIDE}, {WK_SHAPE(5), .param = true}},                                             \
         .reference = binary_reference,                                                            \
         .roundings = 512},                                                                        \
        {name,                                                                                     \
         "a scalar for much",                                                                      \
         build_,                                                                                   \
         .in = {{WK_SHAPE(WK_SAMPLES, 6000)}, {WK_SHAPE(1), .param = true}},                       \
         .reference = binary_reference,                                                            \
         .roundings = 4096},                                                                       \
        {name,                                                                                     \
         "one for each long sample",                                                               \
         build_,                                                                                   \
         .in = {{WK_SHAPE(WK_SAMPLES, 1203)}, {WK_SHAPE(WK_SAMPLES, 1)}},                          \
         .reference = binary_reference,                                                            \
         .roundings = 512},                                                                        \
        {name, "aligned channels", build_,                                                         \
         .in = {{WK_SHAPE(WK_SAMPLES, 3, 8)}, {WK_SHAPE(3, 1), .param = true}},                    \
         .reference = binary_reference},                                                           \
    {                                                                                              \
        name, "many rows", build_,                                                                 \
            .in = {{WK_SHAPE(WK_SAMPLES, 2100)}, {WK_SHAPE(2100), .param = true}},                 \
            .reference = binary_reference                                                          \
    }

#define FORMULA(name)                                                                              \
    {#name, "normal", build_##name, .in = {{WIDE}}, .reference = formula},                         \
        {#name, "positions", build_##name, .in = {{TEXT}}, .reference = formula},                  \
    {                                                                                              \
#name, "extreme", build_##name,                                                            \
            .in = {{WK_SHAPE(WK_SAMPLES, 31), FILL_EXTREME } }, .reference = formula               \
    }

const struct op_case cases_elements[] = {
    BINARY("add", add),
    BINARY("subtract", subtract),
    BINARY("multiply", multiply),
    FORMULA(gelu),
    FORMULA(gelu_erf),
    {"relu", "normal", build_relu, .in = {{WIDE}}, .reference = formula},
    {"relu", "positions", build_relu, .in = {{TEXT}}, .reference = formula},
    {"leaky_relu", "normal", leaky_relu, .in = {{WIDE}}, .number = 0.125, .reference = formula},
    {"leaky_relu", "positions", leaky_relu, .in = {{TEXT}}, .number = 0.125, .reference = formula},
    FORMULA(silu),
    FORMULA(tanh),
    FORMULA(sigmoid),
    {"scale", "normal", scale, .in = {{WIDE}}, .number = -1.75, .reference = formula},
    {"scale", "positions", scale, .in = {{TEXT}}, .number = -1.75, .reference = formula},
    {"swiglu", "small", build_swiglu, .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 22)}},
     .reference = swiglu_reference},
    {"swiglu", "aligned rows", build_swiglu, .in = {{WK_SHAPE(WK_SAMPLES, 7, 48)}},
     .reference = swiglu_reference},
    {"swiglu", "rows above a tile", build_swiglu, .in = {{WK_SHAPE(WK_SAMPLES, 4200)}},
     .reference = swiglu_reference},
    CONVERT(F64, FILL_NORMAL, F32),
    CONVERT(F16, FILL_NORMAL, F32),
    CONVERT(BF16, FILL_NORMAL, F32),
    CONVERT(I32, FILL_WHOLE, F32),
    CONVERT(I64, FILL_WHOLE, F32),
    CONVERT(U8, FILL_WHOLE, F32),
    CONVERT(BOOL, FILL_WHOLE, F32),
    CONVERT(I64, FILL_WHOLE, I32),
    CONVERT(U8, FILL_WHOLE, I32),
    CONVERT(BOOL, FILL_WHOLE, I32),
    {"softmax", "small", build_softmax, .in = {{WK_SHAPE(WK_SAMPLES, WK_LENGTH, 13)}},
     .reference = softmax_reference},
    {"softmax", "one", build_softmax, .in = {{WK_SHAPE(WK_SAMPLES, 1)}},
     .reference = softmax_reference},
    {"softmax", "wide", build_softmax, .in = {{WK_SHAPE(WK_SAMPLES, 2, 2100)}},
     .reference = softmax_reference, .roundings = 64},
    {"softmax", "extreme", build_softmax, .in = {{WK_SHAPE(WK_SAMPLES, 9), FILL_EXTREME}},
     .reference = softmax_reference, .terms = 1},
    {"dropout", "a third", dropout, .in = {{WK_SHAPE(WK_SAMPLES, 3, 7)}}, .number = 0.3,
     .reference = dropout_reference},
    {"dropout", "the model's", dropout, .in = {{WK_SHAPE(WK_SAMPLES, 2050)}}, .number = -1,
     .reference = dropout_reference},
    {"dropout", "two tiles", dropout, .in = {{WK_SHAPE(WK_SAMPLES, 4104)}}, .number = 0.5,
     .reference = dropout_reference},
    {"dropout", "none", dropout, .in = {{WK_SHAPE(WK_SAMPLES, 12)}}, .number = 0,
     .reference = dropout_reference},
    {0},
};
