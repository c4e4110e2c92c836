/* What the table's cases do not reach of operations with products, beside the CPU's rows: adjacent
 * weights as one, decoding with a cache, more rows of logits and more windows than at once. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "libworker/graph/op.h"
#include "libworker/graph/op/attention.h"
#include "libworker/precision/half.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/graph/harness.h"

enum { KEPT_MAX = 64 };

/* A graph of one node, and memory that ends with it. */
struct scene {
    struct wk_graph *graph;
    struct op_pass pass;
    struct op_call call;
    void *kept[KEPT_MAX];
    int n;
};

static struct scene scene_new(void)
{
    struct scene s = {.graph = wk_graph_new("scene")};
    CHECK(s.graph);
    s.pass = (struct op_pass){.kernels = kernel_reference(), .device = "cuda", .trains = true};
    return s;
}

static void scene_free(struct scene *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->kept[i]);
    wk_graph_free(s->graph);
}

static void *memory_new(struct scene *s, size_t bytes)
{
    void *memory = calloc(1, bytes + !bytes);
    CHECK(memory && s->n < KEPT_MAX);
    s->kept[s->n++] = memory;
    return memory;
}

static float next_number(void)
{
    static unsigned random = 1;
    random = random * 1664525u + 1013904223u;
    return (float)(random >> 8) / 0x1p23f - 1;
}

/* A tensor of numbers of about 1. */
static struct op_tensor tensor_new(struct scene *s, enum wk_dtype type, int dims,
                                   const int64_t *shape)
{
    struct op_tensor x = {.type = type, .dims = dims, .count = 1};
    for (int i = 0; i < dims; i++) {
        x.shape[i] = shape[i];
        x.count *= shape[i];
    }
    x.data = memory_new(s, (size_t)x.count * wk_dtype_bytes(type));
    for (int64_t i = 0; i < x.count; i++)
        tensor_put(&x, i, type == WK_I32 ? 0 : (double)next_number());
    return x;
}

static void on_host(struct scene *s, const struct op_call *call, bool backward)
{
    const struct op_row *row = call->node->row;
    struct op_call host = *call;
    host.scratch = memory_new(s, row->scratch_bytes ? row->scratch_bytes(call, backward) : 0);
    if (backward)
        row->backward(&host);
    else
        row->forward(&host);
}

static void on_gpu(struct scene *s, struct op_call *call, bool backward)
{
    call->scratch = memory_new(s, trial_kernels.scratch_bytes(call, backward));
    trial_kernels.run(call, backward);
}

/* The same, as far as a chain of `roundings` and a low type's unit allow, of numbers up to `size`.
 */
static void expect_same(const struct op_tensor *x, const struct op_tensor *y, double roundings,
                        double unit, const char *what)
{
    double *ours = tensor_doubles(x), *theirs = tensor_doubles(y);
    double most = largest_of(theirs, y->count) * (rounding_bound(roundings) + unit);
    for (int64_t i = 0; i < x->count; i++) {
        if (!(fabs(ours[i] - theirs[i]) <= most))
            fprintf(stderr, "%s: element %lld is %g, not %g, bound %g\n", what, (long long)i,
                    ours[i], theirs[i], most);
        CHECK(fabs(ours[i] - theirs[i]) <= most);
    }
    free(ours);
    free(theirs);
}

/* A copy for the other side, with the same content. */
static struct op_tensor twin_of(struct scene *s, const struct op_tensor *x)
{
    struct op_tensor twin = *x;
    size_t bytes = (size_t)x->count * wk_dtype_bytes(x->type);
    twin.data = memory_new(s, bytes);
    memcpy(twin.data, x->data, bytes);
    return twin;
}

/* Three turned weights side by side in memory are one product, forward and backward. */
Test(cuda_products, adjacent_weights_are_one)
{
    enum { IN = 6, ROWS = 5 };
    static const int64_t outs[3] = {4, 2, 3};
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, IN)), *w[3];
    const char *names[3] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        w[i] = wk_graph_param(s.graph, names[i], WK_SHAPE(outs[i], IN), NULL);
    struct wk_tensor *y =
        wk_op_linear(x, &(struct wk_linear_weights){.weight = {w[0], w[1], w[2]}, .turned = true});
    if (!y)
        fprintf(stderr, "%s\n", wk_graph_error(s.graph));
    CHECK(y);
    struct op_call gpu = {.node = y->node, .pass = &s.pass, .compute = WK_F32};
    struct op_tensor weights = tensor_new(&s, WK_F32, 2, (int64_t[]){9, IN});
    struct op_tensor slopes = tensor_new(&s, WK_F32, 2, (int64_t[]){9, IN});
    gpu.in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, IN});
    gpu.out[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, 9});
    gpu.d_out = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, 9});
    gpu.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, IN});
    struct op_call host = gpu;
    host.out[0] = twin_of(&s, &gpu.out[0]);
    host.d_in[0] = twin_of(&s, &gpu.d_in[0]);
    struct op_tensor their_slopes = twin_of(&s, &slopes);
    for (int i = 0, at = 0; i < 3; at += (int)outs[i++] * IN) {
        struct op_tensor part = {.type = WK_F32, .dims = 2, .shape = {outs[i], IN}};
        part.count = outs[i] * IN;
        part.data = (float *)weights.data + at;
        gpu.in[1 + i] = host.in[1 + i] = part;
        part.add = true;
        part.data = (float *)slopes.data + at;
        gpu.d_in[1 + i] = part;
        part.data = (float *)their_slopes.data + at;
        host.d_in[1 + i] = part;
    }
    for (int backward = 0; backward < 2; backward++) {
        on_gpu(&s, &gpu, backward);
        on_host(&s, &host, backward);
    }
    expect_same(&gpu.out[0], &host.out[0], IN, 0, "y");
    expect_same(&gpu.d_in[0], &host.d_in[0], 9, 0, "dx");
    expect_same(&slopes, &their_slopes, ROWS + 1, 0, "dw");
    scene_free(&s);
}

/* A prompt of five positions, then two and one more, in a cache of a type of its own. */
static void decode(enum wk_dtype type, enum wk_dtype cache_type)
{
    enum { SAMPLES = 2, HEADS = 4, KV = 2, SIZE = 6, CAPACITY = 9 };
    static const int64_t lengths[] = {5, 2, 1};
    int64_t width = (HEADS + 2 * KV) * SIZE, past = 0;
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32,
                                         WK_SHAPE(WK_SAMPLES, WK_LENGTH, (HEADS + 2 * KV) * SIZE));
    struct wk_tensor *y =
        wk_op_attention(x, &(struct wk_attention_options){.heads = HEADS, .kv_heads = KV});
    if (!y)
        fprintf(stderr, "%s\n", wk_graph_error(s.graph));
    CHECK(y);
    struct op_tensor cache =
        tensor_new(&s, cache_type, 3, (int64_t[]){CAPACITY, SAMPLES, 2 * KV * SIZE});
    struct op_tensor their_cache = twin_of(&s, &cache);
    for (int i = 0; i < 3; i++) {
        int64_t length = lengths[i];
        s.pass.past = past;
        struct op_call gpu = {.node = y->node, .pass = &s.pass, .cache = cache};
        gpu.compute = cache_type;
        gpu.in[0] = tensor_new(&s, type, 3, (int64_t[]){SAMPLES, length, width});
        gpu.out[0] = tensor_new(&s, type, 3, (int64_t[]){SAMPLES, length, HEADS * SIZE});
        gpu.out[1] = tensor_new(&s, WK_F32, 3, (int64_t[]){SAMPLES, HEADS, length});
        struct op_call host = gpu;
        host.cache = their_cache;
        host.out[0] = twin_of(&s, &gpu.out[0]);
        host.out[1] = twin_of(&s, &gpu.out[1]);
        on_gpu(&s, &gpu, false);
        on_host(&s, &host, false);
        double unit = cache_type == WK_F32 ? 0 : 4 * ROUNDING_BF16;
        expect_same(&gpu.out[0], &host.out[0], 60, unit, "out");
        expect_same(&gpu.out[1], &host.out[1], 60, unit, "lse");
        past += length;
    }
    expect_same(&cache, &their_cache, 0, 0, "cache");
    scene_free(&s);
}

Test(cuda_products, decoding_goes_on_from_the_cache)
{
    decode(WK_F32, WK_F32);
    decode(WK_BF16, WK_BF16);
    decode(WK_F32, WK_BF16);
}

/* More rows than are multiplied at once, with weights of classes, smoothing, and targets left out.
 */
static void logits_in_parts(enum wk_dtype compute)
{
    enum { ROWS = 4200, CLASSES = 5, WIDTH = 3 };
    static const float weights[CLASSES] = {1, 2, 0.5f, 0, 3};
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *table = wk_graph_param(s.graph, "table", WK_SHAPE(CLASSES, WIDTH), NULL);
    struct wk_tensor *targets = wk_graph_input(s.graph, "targets", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_tensor *losses = wk_op_head_cross_entropy(
        x, table, targets,
        &(struct wk_cross_entropy_options){.smoothing = 0.1, .class_weights = weights});
    if (!losses)
        fprintf(stderr, "%s\n", wk_graph_error(s.graph));
    CHECK(losses);
    struct op_call gpu = {.node = losses->node, .pass = &s.pass, .compute = compute};
    gpu.in[0] = tensor_new(&s, compute, 2, (int64_t[]){ROWS, WIDTH});
    gpu.in[1] = tensor_new(&s, compute, 2, (int64_t[]){CLASSES, WIDTH});
    gpu.in[2] = tensor_new(&s, WK_I32, 1, (int64_t[]){ROWS});
    gpu.out[0] = tensor_new(&s, WK_F32, 1, (int64_t[]){ROWS});
    gpu.out[1] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, CLASSES});
    gpu.d_out = tensor_new(&s, WK_F32, 1, (int64_t[]){ROWS});
    gpu.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, WIDTH});
    gpu.d_in[1] = tensor_new(&s, WK_F32, 2, (int64_t[]){CLASSES, WIDTH});
    gpu.d_in[0].add = true;
    for (int i = 0; i < ROWS; i++)
        ((int32_t *)gpu.in[2].data)[i] = i % 7 == 3 ? -1 : i % CLASSES;
    struct op_call host = gpu;
    unsigned keeps = 0;
    trial_kernels.keep(&gpu, &keeps); /* slopes of its own form */
    gpu.out[1] = tensor_new(&s, gpu.out[1].type, 2, gpu.out[1].shape);
    host.out[0] = twin_of(&s, &gpu.out[0]);
    for (int i = 0; i < 2; i++)
        host.d_in[i] = twin_of(&s, &gpu.d_in[i]);
    if (compute != WK_F32)
        s.pass.room = kernel_reference()->room_new();
    for (int backward = 0; backward < 2; backward++) {
        on_gpu(&s, &gpu, backward);
        on_host(&s, &host, backward);
    }
    kernel_reference()->room_free(s.pass.room);
    double unit = compute == WK_F32 ? 0 : 4 * ROUNDING_BF16;
    expect_same(&gpu.out[0], &host.out[0], 30, 0, "losses");
    expect_same(&gpu.d_in[0], &host.d_in[0], 30, unit, "dx");
    expect_same(&gpu.d_in[1], &host.d_in[1], ROWS, unit, "dtable");
    scene_free(&s);
}

Test(cuda_products, more_rows_of_logits_than_at_once)
{
    logits_in_parts(WK_F32);
    logits_in_parts(WK_BF16);
}

/* Backward computes probabilities again, as exp(x - log_sum). Their relative error is at most
 * (|x| + 2 |log_sum| + 4) 2^-24 (kernels/softmax.h), where |x| is at most LARGE and log_sum at most
 * LARGE + log(CLASSES). */
static void probabilities_again(enum wk_dtype type)
{
    enum { ROWS = 37, CLASSES = 11, LARGE = 60, ROUNDINGS = 3 * LARGE + 2 * 3 + 4 + CLASSES };
    struct scene s = scene_new();
    struct wk_tensor *logits = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, CLASSES));
    struct wk_tensor *targets = wk_graph_input(s.graph, "targets", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_tensor *losses =
        wk_op_cross_entropy(logits, targets, &(struct wk_cross_entropy_options){.smoothing = 0.1});
    CHECK(losses);
    struct op_call gpu = {.node = losses->node, .pass = &s.pass, .compute = type};
    unsigned keeps = op_keeps(losses->node);
    gpu.in[0] = tensor_new(&s, type, 2, (int64_t[]){ROWS, CLASSES});
    gpu.in[1] = tensor_new(&s, WK_I32, 1, (int64_t[]){ROWS});
    gpu.out[0] = tensor_new(&s, WK_F32, 1, (int64_t[]){ROWS});
    gpu.out[1] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, CLASSES});
    gpu.d_out = tensor_new(&s, WK_F32, 1, (int64_t[]){ROWS});
    gpu.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, CLASSES});
    for (int i = 0; i < ROWS; i++) {
        ((int32_t *)gpu.in[1].data)[i] = i % 7 == 3 ? -1 : i % CLASSES;
        ((float *)gpu.d_out.data)[i] = 1;
    }
    for (int64_t i = 0; i < gpu.in[0].count; i++)
        tensor_put(&gpu.in[0], i, LARGE * (double)next_number());
    struct op_call host = gpu;
    trial_kernels.keep(&gpu, &keeps);
    CHECK(gpu.out[1].count == ROWS && gpu.out[1].type == WK_F32);
    CHECK((keeps & OP_IN(0)) && (keeps & OP_IN(1)) && (keeps & OP_OUT(1)));
    gpu.out[1].data = memory_new(&s, ROWS * sizeof(float));
    host.out[0] = twin_of(&s, &gpu.out[0]);
    host.d_in[0] = twin_of(&s, &gpu.d_in[0]);
    for (int backward = 0; backward < 2; backward++) {
        on_gpu(&s, &gpu, backward);
        on_host(&s, &host, backward);
    }
    expect_same(&gpu.out[0], &host.out[0], 30, 0, "losses");
    expect_same(&gpu.d_in[0], &host.d_in[0], ROUNDINGS, 0, "dlogits");
    scene_free(&s);
}

Test(cuda_products, probabilities_are_computed_again)
{
    probabilities_again(WK_F32);
    probabilities_again(WK_BF16);
}

/* The same in the compute type, of numbers or of room for them. */
static struct op_tensor narrow_twin(struct scene *s, const struct op_tensor *x, enum wk_dtype type)
{
    struct op_tensor twin = *x;
    twin.type = type;
    twin.data = memory_new(s, (size_t)x->count * wk_dtype_bytes(type));
    double *values = tensor_doubles(x);
    for (int64_t i = 0; i < x->count; i++)
        tensor_put(&twin, i, values[i]);
    free(values);
    return twin;
}

static void expect_rounded(struct scene *s, const struct op_tensor *low, const struct op_tensor *x)
{
    struct op_tensor rounded = narrow_twin(s, x, low->type);
    CHECK(!memcmp(low->data, rounded.data, (size_t)low->count * wk_dtype_bytes(low->type)));
}

/* A backward pass with gradients in f32, of a result's gradient that is `exact` in bf16 or not, and
 * one with both in bf16. What is written in bf16 is the other rounded. Returns the second call. */
static struct op_call both_ways(struct scene *s, struct op_call *call, bool exact)
{
    struct op_call low = *call;
    if (exact) {
        struct op_tensor rounded = narrow_twin(s, &call->d_out, WK_BF16);
        for (int64_t i = 0; i < rounded.count; i++)
            tensor_put(&call->d_out, i, (double)f32_of_bf16(((const uint16_t *)rounded.data)[i]));
    }
    low.d_out = narrow_twin(s, &call->d_out, WK_BF16);
    low.d_in[0] = narrow_twin(s, &call->d_in[0], WK_BF16);
    for (int i = 1; i < NODE_INPUTS_MAX; i++) {
        if (call->d_in[i].data)
            low.d_in[i] = twin_of(s, &call->d_in[i]);
    }
    on_gpu(s, call, true);
    on_gpu(s, &low, true);
    expect_rounded(s, &low.d_in[0], &call->d_in[0]);
    return low;
}

/* Products have the same bits. The bias' gradient is a sum of rounded numbers: each is off by
 * 2^-8 of itself at most, so the sum by 2^-8 of the sum of sizes. */
Test(cuda_products, gradients_of_linear_may_be_narrow)
{
    enum { ROWS = 300, IN = 24, OUT = 16, BIAS = LINEAR_BIAS };
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, IN));
    struct wk_tensor *y = wk_layer_linear(x, "fc", OUT);
    CHECK(y);
    struct op_call call = {.node = y->node, .pass = &s.pass, .compute = WK_BF16};
    call.in[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){ROWS, IN});
    call.in[1] =
        tensor_new(&s, WK_BF16, 2,
                   (int64_t[]){y->node->in[1]->shape[0].fixed, y->node->in[1]->shape[1].fixed});
    call.in[BIAS] = tensor_new(&s, WK_F32, 1, (int64_t[]){OUT});
    call.out[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){ROWS, OUT});
    call.d_out = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, OUT});
    call.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, IN});
    call.d_in[1] = call.in[1];
    call.d_in[1].type = WK_F32;
    call.d_in[1].data = memory_new(&s, (size_t)call.d_in[1].count * sizeof(float));
    call.d_in[1].add = call.d_in[BIAS].add = true;
    call.d_in[BIAS] = tensor_new(&s, WK_F32, 1, (int64_t[]){OUT});
    struct op_call low = both_ways(&s, &call, false);
    expect_same(&low.d_in[1], &call.d_in[1], 0, 0, "dw");
    for (int col = 0; col < OUT; col++) {
        double size = 0, rounded = ((const float *)low.d_in[BIAS].data)[col];
        for (int row = 0; row < ROWS; row++)
            size += fabs((double)((const float *)call.d_out.data)[row * OUT + col]);
        double apart = fabs(rounded - (double)((const float *)call.d_in[BIAS].data)[col]);
        CHECK(apart > 0 && apart <= size * ROUNDING_BF16 + rounding_bound(ROWS) * size);
    }
    scene_free(&s);
}

Test(cuda_products, gradients_of_attention_may_be_narrow)
{
    enum { SAMPLES = 2, LENGTH = 37, HEADS = 4, KV = 2, SIZE = 16 };
    int64_t width = (HEADS + 2 * KV) * SIZE;
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32,
                                         WK_SHAPE(WK_SAMPLES, WK_LENGTH, (HEADS + 2 * KV) * SIZE));
    struct wk_tensor *y =
        wk_op_attention(x, &(struct wk_attention_options){.heads = HEADS, .kv_heads = KV});
    CHECK(y);
    struct op_call call = {.node = y->node, .pass = &s.pass, .compute = WK_BF16};
    call.in[0] = tensor_new(&s, WK_BF16, 3, (int64_t[]){SAMPLES, LENGTH, width});
    call.out[0] = tensor_new(&s, WK_BF16, 3, (int64_t[]){SAMPLES, LENGTH, HEADS * SIZE});
    call.out[1] = tensor_new(&s, WK_F32, 3, (int64_t[]){SAMPLES, HEADS, LENGTH});
    call.d_out = tensor_new(&s, WK_F32, 3, (int64_t[]){SAMPLES, LENGTH, HEADS * SIZE});
    call.d_in[0] = tensor_new(&s, WK_F32, 3, (int64_t[]){SAMPLES, LENGTH, width});
    on_gpu(&s, &call, false);
    (void)both_ways(&s, &call, true);
    scene_free(&s);
}

/* A GELU writes what the linear layer before it reads; its own is in f32. */
Test(cuda_products, gradients_of_curves_may_be_narrow)
{
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, 13));
    struct wk_tensor *y = wk_op_gelu(x);
    CHECK(y);
    struct op_call call = {.node = y->node, .pass = &s.pass, .compute = WK_BF16};
    call.in[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){41, 13});
    call.out[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){41, 13});
    call.d_out = tensor_new(&s, WK_F32, 2, (int64_t[]){41, 13});
    call.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){41, 13});
    struct op_call low = call;
    low.d_in[0] = narrow_twin(&s, &call.d_in[0], WK_BF16);
    on_gpu(&s, &call, true);
    on_gpu(&s, &low, true);
    expect_rounded(&s, &low.d_in[0], &call.d_in[0]);
    scene_free(&s);
}

/* The product with slopes writes what the product in f32 and then a GELU's kernel write. Each
 * rounds once to bf16, numbers that a few roundings in f32 have made. */
Test(cuda_products, linear_multiplies_by_slopes_of_gelu)
{
    enum { ROWS = 70, IN = 24, OUT = 16 };
    struct scene s = scene_new();
    struct wk_tensor *h = wk_graph_input(s.graph, "h", WK_F32, WK_SHAPE(WK_SAMPLES, IN));
    struct wk_tensor *x = wk_op_gelu(h), *y = wk_layer_linear(x, "fc", OUT);
    CHECK(x && y);
    struct op_call call = {.node = y->node, .pass = &s.pass, .compute = WK_BF16};
    call.in[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){ROWS, IN});
    call.in[1] =
        tensor_new(&s, WK_BF16, 2,
                   (int64_t[]){y->node->in[1]->shape[0].fixed, y->node->in[1]->shape[1].fixed});
    call.out[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){ROWS, OUT});
    call.d_out = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, OUT});
    call.d_in[0] = tensor_new(&s, WK_F32, 2, (int64_t[]){ROWS, IN});
    struct op_call gelu = {.node = x->node, .pass = &s.pass, .compute = WK_BF16}, bent = call;
    gelu.in[0] = tensor_new(&s, WK_BF16, 2, (int64_t[]){ROWS, IN});
    gelu.out[0] = call.in[0];
    gelu.d_out = call.d_in[0];
    gelu.d_in[0] = narrow_twin(&s, &call.d_in[0], WK_BF16);
    bent.in[LINEAR_SLOPES] = gelu.in[0];
    bent.d_in[0] = narrow_twin(&s, &call.d_in[0], WK_BF16);
    on_gpu(&s, &call, true);
    on_gpu(&s, &gelu, true);
    on_gpu(&s, &bent, true);
    expect_same(&bent.d_in[0], &gelu.d_in[0], OUT + 20, 2 * ROUNDING_BF16, "dh");
    scene_free(&s);
}

/* 254,016 elements of windows a sample: 66 samples are multiplied at once, and 4 after them. */
Test(cuda_products, more_windows_than_at_once)
{
    enum { SAMPLES = 70, SIDE = 64, KERNEL = 9, OUT = SIDE - KERNEL + 1 };
    struct scene s = scene_new();
    struct wk_tensor *x = wk_graph_input(s.graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, 1, SIDE, SIDE));
    struct wk_tensor *w = wk_graph_param(s.graph, "w", WK_SHAPE(1, 1, KERNEL, KERNEL), NULL);
    struct wk_tensor *y = wk_op_conv2d(x, w, NULL, NULL);
    if (!y)
        fprintf(stderr, "%s\n", wk_graph_error(s.graph));
    CHECK(y);
    struct op_call gpu = {.node = y->node, .pass = &s.pass, .compute = WK_F32};
    gpu.in[0] = tensor_new(&s, WK_F32, 4, (int64_t[]){SAMPLES, 1, SIDE, SIDE});
    gpu.in[1] = tensor_new(&s, WK_F32, 4, (int64_t[]){1, 1, KERNEL, KERNEL});
    gpu.out[0] = tensor_new(&s, WK_F32, 4, (int64_t[]){SAMPLES, 1, OUT, OUT});
    gpu.d_out = tensor_new(&s, WK_F32, 4, (int64_t[]){SAMPLES, 1, OUT, OUT});
    gpu.d_in[1] = tensor_new(&s, WK_F32, 4, (int64_t[]){1, 1, KERNEL, KERNEL});
    struct op_call host = gpu;
    host.out[0] = twin_of(&s, &gpu.out[0]);
    host.d_in[1] = twin_of(&s, &gpu.d_in[1]);
    for (int backward = 0; backward < 2; backward++) {
        on_gpu(&s, &gpu, backward);
        on_host(&s, &host, backward);
    }
    expect_same(&gpu.out[0], &host.out[0], KERNEL * KERNEL, 0, "y");
    expect_same(&gpu.d_in[1], &host.d_in[1], SAMPLES * OUT * OUT, 0, "dw");
    scene_free(&s);
}
