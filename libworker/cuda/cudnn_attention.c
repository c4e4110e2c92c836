#include "libworker/cuda/cudnn_attention.h"

#include <math.h>

/* A graph of attention under construction. */
struct sketch {
    struct cudnn_graph *graph;
    const struct cudnn_attention *a;
    cudnnDataType_t type;
};

enum turn { AS_IS, TURNED };

/* f32 between two operations, of [samples, heads, rows, columns]. */
static int between(const struct sketch *s, int64_t rows, int64_t columns)
{
    return cudnn_tensor_add(s->graph, &(struct cudnn_tensor){
                                          .type = CUDNN_DATA_FLOAT,
                                          .shape = {s->a->samples, s->a->heads, rows, columns},
                                      });
}

/* One for each score. */
static int scores(const struct sketch *s)
{
    return between(s, s->a->length, s->a->length);
}

static int score_flags(const struct sketch *s, cudnnDataType_t type)
{
    int64_t length = s->a->length;
    return cudnn_tensor_add(s->graph, &(struct cudnn_tensor){
                                          .type = type,
                                          .shape = {s->a->samples, s->a->heads, length, length},
                                      });
}

static int number(const struct sketch *s, float value)
{
    return cudnn_tensor_add(s->graph, &(struct cudnn_tensor){.type = CUDNN_DATA_FLOAT,
                                                             .place = CUDNN_NUMBER,
                                                             .shape = {1, 1, 1, 1},
                                                             .number = value});
}

/* [samples, heads, length, size] in memory, or its rows and columns exchanged. */
static int vectors(const struct sketch *s, int64_t heads, int64_t row, int64_t sample,
                   enum turn turn)
{
    const struct cudnn_attention *a = s->a;
    struct cudnn_tensor tensor = {.type = s->type, .place = CUDNN_IN_MEMORY};
    int rows = turn == AS_IS ? 2 : 3, columns = turn == AS_IS ? 3 : 2;
    tensor.shape[0] = a->samples;
    tensor.shape[1] = heads;
    tensor.shape[rows] = a->length;
    tensor.shape[columns] = a->size;
    tensor.stride[0] = sample;
    tensor.stride[1] = a->size;
    tensor.stride[rows] = row;
    tensor.stride[columns] = 1;
    return cudnn_tensor_add(s->graph, &tensor);
}

/* f32 in memory, rows side by side. */
static int floats(const struct sketch *s, int64_t columns)
{
    const struct cudnn_attention *a = s->a;
    return cudnn_tensor_add(s->graph, &(struct cudnn_tensor){
                                          .type = CUDNN_DATA_FLOAT,
                                          .place = CUDNN_IN_MEMORY,
                                          .shape = {a->samples, a->heads, a->length, columns},
                                      });
}

static int one(const struct sketch *s, cudnnPointwiseMode_t mode, int x, int y)
{
    cudnn_pointwise(s->graph, &(struct cudnn_pointwise){.mode = mode, .x = x, .y = y});
    return y;
}

static int two(const struct sketch *s, cudnnPointwiseMode_t mode, int x, int b, int y)
{
    cudnn_pointwise(s->graph, &(struct cudnn_pointwise){.mode = mode, .x = x, .b = b, .y = y});
    return y;
}

static int product(const struct sketch *s, int a, int b, int c)
{
    cudnn_matmul(s->graph, a, b, c);
    return c;
}

static int row_sums(const struct sketch *s, cudnnReduceTensorOp_t op, int x)
{
    int y = between(s, s->a->length, 1);
    cudnn_reduce(s->graph, op, x, y);
    return y;
}

/* scale q k^T. */
static int scaled_scores(const struct sketch *s, int scale)
{
    int product_of = product(s, ROLE_Q, ROLE_K, scores(s));
    return two(s, CUDNN_POINTWISE_MUL, product_of, scale, scores(s));
}

/* -inf where the key is after the query, if the mask is causal. */
static int masked(const struct sketch *s, int x)
{
    enum { QUERIES = 2, KEYS = 3 };
    if (!s->a->causal)
        return x;
    int query = score_flags(s, CUDNN_DATA_INT32), key = score_flags(s, CUDNN_DATA_INT32);
    int seen = score_flags(s, CUDNN_DATA_BOOLEAN), y = scores(s);
    cudnn_pointwise(s->graph,
                    &(struct cudnn_pointwise){
                        .mode = CUDNN_POINTWISE_GEN_INDEX, .axis = QUERIES, .x = x, .y = query});
    cudnn_pointwise(s->graph,
                    &(struct cudnn_pointwise){
                        .mode = CUDNN_POINTWISE_GEN_INDEX, .axis = KEYS, .x = x, .y = key});
    two(s, CUDNN_POINTWISE_CMP_GE, query, key, seen);
    cudnn_pointwise(s->graph, &(struct cudnn_pointwise){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                        .x = x,
                                                        .b = number(s, -INFINITY),
                                                        .t = seen,
                                                        .y = y});
    return y;
}

/* Probabilities are in the type of the values, as they are multiplied by them. */
static void build_forward(const struct sketch *s)
{
    const struct cudnn_attention *a = s->a;
    int x = masked(s, scaled_scores(s, number(s, a->scale)));
    int largest = row_sums(s, CUDNN_REDUCE_TENSOR_MAX, x);
    int less = two(s, CUDNN_POINTWISE_SUB, x, largest, scores(s));
    int powers = one(s, CUDNN_POINTWISE_EXP, less, scores(s));
    int sums = row_sums(s, CUDNN_REDUCE_TENSOR_ADD, powers);
    int logs = one(s, CUDNN_POINTWISE_LOG, sums, between(s, a->length, 1));
    two(s, CUDNN_POINTWISE_ADD, largest, logs, ROLE_LSE);
    int shares = two(s, CUDNN_POINTWISE_DIV, powers, sums, score_flags(s, s->type));
    product(s, shares, ROLE_V, ROLE_OUT);
}

/* x^T y, where rows of x are queries and columns keys, in the type of the values. */
static void turned_product(const struct sketch *s, int x, int y, int to)
{
    const struct cudnn_attention *a = s->a;
    int64_t length = a->length, heads = a->heads;
    int turned = cudnn_tensor_add(
        s->graph,
        &(struct cudnn_tensor){.type = s->type,
                               .shape = {a->samples, heads, length, length},
                               .stride = {heads * length * length, length * length, 1, length}});
    cudnn_reshape(s->graph, x, turned);
    if (a->heads == a->kv_heads) {
        product(s, turned, y, to);
        return;
    }
    int each = cudnn_tensor_add(
        s->graph,
        &(struct cudnn_tensor){.type = s->type, .shape = {a->samples, heads, length, a->size}});
    cudnn_reduce(s->graph, CUDNN_REDUCE_TENSOR_ADD, product(s, turned, y, each), to);
}

static int keys_as_rows(const struct sketch *s)
{
    const struct cudnn_attention *a = s->a;
    int rows = cudnn_tensor_add(
        s->graph, &(struct cudnn_tensor){.type = s->type,
                                         .shape = {a->samples, a->kv_heads, a->length, a->size},
                                         .stride = {a->sample, a->size, a->row, 1}});
    cudnn_reshape(s->graph, ROLE_K, rows);
    return rows;
}

/* The engines know delta as a product with the inverse of what dropout keeps, which is 1 here. */
static void build_backward(const struct sketch *s)
{
    const struct cudnn_attention *a = s->a;
    int scale = number(s, a->scale);
    int both = two(s, CUDNN_POINTWISE_MUL, ROLE_DOUT, ROLE_OUT, between(s, a->length, a->size));
    int delta = row_sums(s, CUDNN_REDUCE_TENSOR_ADD, both);
    two(s, CUDNN_POINTWISE_MUL, delta, number(s, 1), ROLE_DELTA);
    int less = two(s, CUDNN_POINTWISE_SUB, scaled_scores(s, scale), ROLE_LSE, scores(s));
    int shares = one(s, CUDNN_POINTWISE_EXP, masked(s, less), scores(s));
    turned_product(s, shares, ROLE_DOUT, ROLE_DV);
    int slopes = product(s, ROLE_DOUT, ROLE_V, scores(s));
    slopes = two(s, CUDNN_POINTWISE_SUB, slopes, ROLE_DELTA, scores(s));
    slopes = two(s, CUDNN_POINTWISE_MUL, slopes, shares, scores(s));
    slopes = two(s, CUDNN_POINTWISE_MUL, slopes, scale, scores(s));
    turned_product(s, slopes, ROLE_Q, ROLE_DK);
    if (a->repeats) {
        product(s, slopes, keys_as_rows(s), ROLE_DQ);
        return;
    }
    product(s, slopes, keys_as_rows(s), ROLE_DQ_SUM);
    one(s, CUDNN_POINTWISE_IDENTITY, ROLE_DQ_SUM, ROLE_DQ);
}

void cudnn_attention_build(struct cudnn_graph *graph, const struct cudnn_attention *a)
{
    struct sketch s = {graph, a, a->type == WK_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF};
    enum turn values = a->backward ? TURNED : AS_IS;
    vectors(&s, a->heads, a->row, a->sample, AS_IS);
    vectors(&s, a->kv_heads, a->row, a->sample, TURNED);
    vectors(&s, a->kv_heads, a->row, a->sample, values);
    vectors(&s, a->heads, a->out_row, a->out_sample, AS_IS);
    floats(&s, 1);
    if (!a->backward) {
        build_forward(&s);
        return;
    }
    vectors(&s, a->heads, a->out_row, a->out_sample, AS_IS);
    vectors(&s, a->heads, a->row, a->sample, AS_IS);
    vectors(&s, a->kv_heads, a->row, a->sample, AS_IS);
    vectors(&s, a->kv_heads, a->row, a->sample, AS_IS);
    floats(&s, 1);
    if (!a->repeats)
        floats(&s, a->size);
    build_backward(&s);
}
