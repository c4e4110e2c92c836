/* What cuDNN's operations mean, one after the other on whole tensors, with sums in double. A tensor
 * has its type's precision, also between two operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/precision/half.h"
#include "tests/cuda/fake/cudnn_inside.h"
#include "tests/cuda/fake/fake.h"

const struct attribute *attribute_of(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->n; i++) {
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    }
    return NULL;
}

int64_t whole_of(const struct descriptor *d, cudnnBackendAttributeName_t name, int64_t otherwise)
{
    const struct attribute *a = attribute_of(d, name);
    return a ? *(const int64_t *)a->at : otherwise;
}

int kind_of(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute_of(d, name);
    return a ? *(const int32_t *)a->at : -1;
}

bool flag_of(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute_of(d, name);
    return a && *(const bool *)a->at;
}

const struct descriptor *part_of(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute_of(d, name);
    return a ? *(const struct descriptor *const *)a->at : NULL;
}

struct tensor tensor_of(const struct descriptor *d)
{
    struct tensor t;
    memset(&t, 0, sizeof(t)); /* gaps too: tensors are compared by bytes */
    t.uid = whole_of(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
    t.align = whole_of(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
    t.type = kind_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.between = flag_of(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.number = flag_of(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    memcpy(t.shape, attribute_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->at, sizeof(t.shape));
    memcpy(t.stride, attribute_of(d, CUDNN_ATTR_TENSOR_STRIDES)->at, sizeof(t.stride));
    return t;
}

int64_t tensor_count(const struct tensor *t)
{
    return t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3];
}

static bool is_low(const struct tensor *t)
{
    return t->type == CUDNN_DATA_HALF || t->type == CUDNN_DATA_BFLOAT16;
}

size_t tensor_bytes(const struct tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < DIMS; i++)
        last += (t->shape[i] - 1) * t->stride[i];
    return (size_t)(last + 1) * (is_low(t) ? sizeof(uint16_t) : sizeof(float));
}

struct operands operands_of(const struct descriptor *op)
{
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        return (struct operands){{part_of(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                                  part_of(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC)},
                                 part_of(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC),
                                 part_of(op, CUDNN_ATTR_OPERATION_MATMUL_DESC)};
    if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        return (struct operands){{part_of(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)},
                                 part_of(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
                                 part_of(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC)};
    if (op->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        return (struct operands){{part_of(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)},
                                 part_of(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC),
                                 NULL};
    return (struct operands){{part_of(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                              part_of(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                              part_of(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)},
                             part_of(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
                             part_of(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)};
}

/* ---- rules ---- */

/* Products are of low types: what is in f32 between operations is rounded to that of the second
 * factor, whose heads are shared by groups. */
static bool product_fits(const struct tensor *a, const struct tensor *b, const struct tensor *c)
{
    bool types = a->type == b->type || (a->between && a->type == CUDNN_DATA_FLOAT);
    return types && is_low(b) && a->shape[0] == b->shape[0] && a->shape[0] == c->shape[0] &&
           a->shape[1] % b->shape[1] == 0 && a->shape[1] == c->shape[1] &&
           a->shape[3] == b->shape[2] && a->shape[2] == c->shape[2] && b->shape[3] == c->shape[3];
}

/* y's dimension, or 1; or a divisor of y's heads. */
static bool spreads(const struct tensor *x, const struct tensor *y)
{
    for (int i = 0; i < DIMS; i++) {
        if (x->shape[i] != y->shape[i] && x->shape[i] != 1)
            return false;
    }
    return true;
}

static bool reduces(const struct tensor *x, const struct tensor *y)
{
    return x->shape[0] == y->shape[0] && x->shape[1] % y->shape[1] == 0 &&
           x->shape[2] == y->shape[2] && (y->shape[3] == 1 || y->shape[3] == x->shape[3]);
}

static int inputs_of(int mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX:
        return 1;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return 3;
    default:
        return 2;
    }
}

static bool elements_fit(const struct operands *o)
{
    struct tensor y = tensor_of(o->out);
    int mode = kind_of(o->how, CUDNN_ATTR_POINTWISE_MODE), n = 0;
    int64_t axis = whole_of(o->how, CUDNN_ATTR_POINTWISE_AXIS, -1);
    bool compares = mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_GT ||
                    mode == CUDNN_POINTWISE_CMP_LE || mode == CUDNN_POINTWISE_CMP_LT;
    for (; n < 3 && o->in[n]; n++) {
        struct tensor x = tensor_of(o->in[n]);
        if (!spreads(&x, &y))
            return false;
    }
    if (n != inputs_of(mode) || (n < 2 && o->in[2]) || compares != (y.type == CUDNN_DATA_BOOLEAN))
        return false;
    if (compares != (kind_of(o->how, CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_BOOLEAN))
        return false;
    bool counts = mode == CUDNN_POINTWISE_GEN_INDEX;
    if (n == 3 && tensor_of(o->in[2]).type != CUDNN_DATA_BOOLEAN)
        return false;
    return counts == (y.type == CUDNN_DATA_INT32) && counts == (axis >= 0 && axis < DIMS);
}

cudnnStatus_t operation_check(const struct descriptor *op)
{
    struct operands o = operands_of(op);
    struct tensor x = tensor_of(o.in[0]), y = tensor_of(o.out);
    bool fits = tensor_count(&x) == tensor_count(&y);
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
        struct tensor b = tensor_of(o.in[1]);
        fits = product_fits(&x, &b, &y);
    } else if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
        fits = reduces(&x, &y);
    } else if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
        fits = elements_fit(&o);
    }
    return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

/* ---- values ---- */

/* A tensor with its values side by side, [samples, heads, rows, columns]. */
struct value {
    struct tensor t;
    float *at;
};

struct state {
    const struct walk *walk;
    float *between[UIDS_MAX];
};

static float rounded(float x, int type)
{
    if (type == CUDNN_DATA_HALF)
        return f32_of_f16(f16_of_f32(x));
    return type == CUDNN_DATA_BFLOAT16 ? f32_of_bf16(bf16_of_f32(x)) : x;
}

static int64_t index_at(const int64_t shape[DIMS], int64_t i, int64_t ret[DIMS])
{
    for (int d = DIMS - 1; d >= 0; d--) {
        ret[d] = i % shape[d];
        i /= shape[d];
    }
    return i;
}

static int64_t offset_at(const struct tensor *t, int64_t i)
{
    int64_t at[DIMS], offset = 0;
    (void)index_at(t->shape, i, at);
    for (int d = 0; d < DIMS; d++)
        offset += at[d] * t->stride[d];
    return offset;
}

static float *floats_new(int64_t count)
{
    float *floats = malloc((size_t)count * sizeof(*floats));
    if (!floats)
        fake_found("no memory for a tensor of cuDNN");
    return floats;
}

static struct value value_load(const struct state *s, const struct descriptor *d)
{
    struct value v = {.t = tensor_of(d)};
    int64_t count = tensor_count(&v.t);
    v.at = floats_new(count);
    const void *from = s->walk->memory[v.t.uid];
    for (int64_t i = 0; i < count; i++) {
        int64_t at = offset_at(&v.t, i);
        if (v.t.number)
            v.at[i] = s->walk->numbers[v.t.uid];
        else if (v.t.between)
            v.at[i] = s->between[v.t.uid][i];
        else if (v.t.type == CUDNN_DATA_FLOAT)
            v.at[i] = ((const float *)from)[at];
        else
            v.at[i] = v.t.type == CUDNN_DATA_HALF ? f32_of_f16(((const uint16_t *)from)[at])
                                                  : f32_of_bf16(((const uint16_t *)from)[at]);
    }
    return v;
}

static void value_store(struct state *s, struct value *v)
{
    int64_t count = tensor_count(&v->t);
    void *to = s->walk->memory[v->t.uid];
    for (int64_t i = 0; i < count; i++) {
        int64_t at = offset_at(&v->t, i);
        v->at[i] = rounded(v->at[i], v->t.type);
        if (v->t.between)
            continue;
        if (v->t.type == CUDNN_DATA_FLOAT)
            ((float *)to)[at] = v->at[i];
        else
            ((uint16_t *)to)[at] =
                v->t.type == CUDNN_DATA_HALF ? f16_of_f32(v->at[i]) : bf16_of_f32(v->at[i]);
    }
    if (v->t.between)
        s->between[v->t.uid] = v->at;
    else
        free(v->at);
}

/* ---- operations ---- */

static void multiply(const struct value *a, const struct value *b, struct value *c)
{
    int64_t m = c->t.shape[2], n = c->t.shape[3], k = a->t.shape[3], heads = a->t.shape[1];
    int64_t group = heads / b->t.shape[1];
    for (int64_t each = 0; each < a->t.shape[0] * heads; each++) {
        const float *x = a->at + each * m * k;
        const float *y = b->at + (each / heads * b->t.shape[1] + each % heads / group) * k * n;
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += (double)rounded(x[i / n * k + j], b->t.type) * (double)y[j * n + i % n];
            c->at[each * m * n + i] = (float)sum;
        }
    }
}

/* Of a row, or of the heads of a group. */
static void reduce(int operation, const struct value *x, struct value *y)
{
    int64_t heads = x->t.shape[1], group = heads / y->t.shape[1];
    bool rows = y->t.shape[3] == 1;
    double *sums = calloc((size_t)tensor_count(&y->t), sizeof(*sums));
    bool *begun = calloc((size_t)tensor_count(&y->t), sizeof(*begun));
    for (int64_t i = 0; i < tensor_count(&x->t); i++) {
        int64_t at[DIMS];
        (void)index_at(x->t.shape, i, at);
        int64_t to =
            ((at[0] * y->t.shape[1] + at[1] / group) * y->t.shape[2] + at[2]) * y->t.shape[3] +
            (rows ? 0 : at[3]);
        double value = (double)x->at[i];
        bool largest = operation == CUDNN_REDUCE_TENSOR_MAX;
        sums[to] = !begun[to] ? value : largest ? fmax(sums[to], value) : sums[to] + value;
        begun[to] = true;
    }
    for (int64_t i = 0; i < tensor_count(&y->t); i++)
        y->at[i] = (float)sums[i];
    free(begun);
    free(sums);
}

/* The same elements of memory under other dimensions. */
static void reshape(const struct value *x, struct value *y)
{
    size_t places = tensor_bytes(&x->t) + tensor_bytes(&y->t);
    float *all = floats_new((int64_t)places);
    for (int64_t i = 0; i < tensor_count(&x->t); i++)
        all[offset_at(&x->t, i)] = x->at[i];
    for (int64_t i = 0; i < tensor_count(&y->t); i++)
        y->at[i] = all[offset_at(&y->t, i)];
    free(all);
}

static float spread(const struct value *x, const int64_t at[DIMS])
{
    int64_t i = 0;
    for (int d = 0; d < DIMS; d++)
        i = i * x->t.shape[d] + (x->t.shape[d] == 1 ? 0 : at[d]);
    return x->at[i];
}

static float function_of(int mode, float x, float b, float t)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return expf(x);
    case CUDNN_POINTWISE_LOG:
        return logf(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_LE:
        return x <= b;
    case CUDNN_POINTWISE_CMP_LT:
        return x < b;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
    default:
        fake_found("cuDNN's pointwise mode %d is not known here", mode);
    }
}

static void apply(const struct operands *o, const struct value in[3], struct value *y)
{
    int mode = kind_of(o->how, CUDNN_ATTR_POINTWISE_MODE);
    int64_t axis = whole_of(o->how, CUDNN_ATTR_POINTWISE_AXIS, 0);
    for (int64_t i = 0; i < tensor_count(&y->t); i++) {
        int64_t at[DIMS];
        float x[3] = {0};
        (void)index_at(y->t.shape, i, at);
        for (int k = 0; k < 3; k++)
            x[k] = in[k].at ? spread(&in[k], at) : 0;
        y->at[i] = mode == CUDNN_POINTWISE_GEN_INDEX ? (float)at[axis]
                                                     : function_of(mode, x[0], x[1], x[2]);
    }
}

static void operation_run(struct state *s, const struct descriptor *op)
{
    struct operands o = operands_of(op);
    struct value in[3] = {{.at = NULL}}, y = {.t = tensor_of(o.out)};
    for (int k = 0; k < 3; k++) {
        if (o.in[k])
            in[k] = value_load(s, o.in[k]);
    }
    y.at = floats_new(tensor_count(&y.t));
    if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        multiply(&in[0], &in[1], &y);
    else if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        reduce(kind_of(o.how, CUDNN_ATTR_REDUCTION_OPERATOR), &in[0], &y);
    else if (op->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
        reshape(&in[0], &y);
    else
        apply(&o, in, &y);
    value_store(s, &y);
    for (int k = 0; k < 3; k++)
        free(in[k].at);
}

void walk_run(const struct walk *walk)
{
    struct state s = {.walk = walk};
    const struct attribute *ops = attribute_of(walk->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    for (int64_t i = 0; i < ops->count; i++)
        operation_run(&s, ((const struct descriptor *const *)ops->at)[i]);
    for (int i = 0; i < UIDS_MAX; i++)
        free(s.between[i]);
}
