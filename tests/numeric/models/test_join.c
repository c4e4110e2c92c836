/* A sum and its norm in one launch: the bits, the types and no more memory than as two launches, in
 * every pass; and which sums are left alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/graph.h>
#include <worker/nn.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/graph/pass.h"
#include "libworker/nn/decode.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

/* Rows are no multiple of what a kernel takes at a time. */
enum { SAMPLES = 3, LENGTH = 7, COUNT = SAMPLES * LENGTH, VOCAB = 37, WIDTH = 16, LAYERS = 2 };
enum { GPT, LLAMA, AFTER, STREAM, KINDS };

static int32_t tokens[COUNT], targets[COUNT];

/* Tokens, then layers, then logits; `layer` is one of them. */
static struct wk_model *text_model(struct wk_tensor *(*layer)(struct wk_tensor *x))
{
    struct wk_model *model = NULL;
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_graph *g = wk_graph_new("text");
    struct wk_tensor *in = wk_graph_input(g, "tokens", WK_I32, shape);
    struct wk_tensor *next = wk_graph_input(g, "targets", WK_I32, shape);
    wk_graph_max_length(g, LENGTH);
    struct wk_tensor *x = wk_layer_embedding(in, "embed", VOCAB, WIDTH);
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = layer(x);
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, next, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

/* Norms after the sums, which nothing else reads; what is added ends there. */
static struct wk_tensor *after(struct wk_tensor *x)
{
    struct wk_tensor *y = wk_op_dropout(wk_layer_linear(x, "first", WIDTH), 0.25);
    x = wk_layer_norm(wk_op_add(x, y), "norm1");
    y = wk_op_dropout(wk_op_gelu(wk_layer_linear(x, "second", WIDTH)), 0.25);
    return wk_layer_norm(wk_op_add(y, x), "norm2");
}

/* A stream that later sums read, too; attention without a product after it. */
static struct wk_tensor *stream(struct wk_tensor *x)
{
    struct wk_attention_options heads = {.heads = 2};
    struct wk_tensor *y = wk_layer_linear(wk_layer_rms_norm(x, "norm1"), "qkv", 3 * WIDTH);
    x = wk_op_add(x, wk_op_attention(y, &heads));
    y = wk_layer_linear(wk_layer_rms_norm(x, "norm2"), "up", WIDTH);
    x = wk_op_add(x, wk_op_silu(y));
    y = wk_op_tanh(wk_layer_norm(x, "norm3"));
    return wk_op_add(wk_op_silu(x), y); /* is computed again before the norm is */
}

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {LAYERS, 2, WIDTH, LENGTH, VOCAB};
    struct wk_llama_config llama = {.layers = LAYERS,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = WIDTH,
                                    .inner = 24,
                                    .context = LENGTH,
                                    .vocab = VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5};
    if (kind == AFTER || kind == STREAM)
        return text_model(kind == AFTER ? after : stream);
    CHECK((kind == GPT ? wk_gpt_new(&gpt, &model) : wk_llama_new(&llama, &model)) == 0);
    CHECK(wk_model_dropout(model, 0.25, 5) == 0); /* else the sums are the linear layers' */
    return model;
}

static struct wk_batch batch_of(void)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = (int32_t)(random_bits(2, i) % VOCAB);
    }
    return (struct wk_batch){
        .tokens = tokens, .targets = targets, .samples = SAMPLES, .length = LENGTH};
}

/* A model with its memory, and what its passes give. */
struct subject {
    struct wk_model *model;
    float *params, *grads;
    uint16_t *low;
    double loss;
    float logits[2 * SAMPLES * VOCAB]; /* of a whole text, and of one that goes on */
};

static struct subject subject_new(int kind, enum wk_dtype type, bool apart)
{
    struct subject s = {.model = model_of(kind)};
    size_t count = s.model->count;
    graph_model_of(s.model)->apart = apart;
    s.params = calloc(count, sizeof(float));
    s.grads = calloc(count, sizeof(float));
    s.low = calloc(count, sizeof(uint16_t));
    CHECK(model_bind(s.model, s.params, s.grads) == 0);
    CHECK(wk_model_init(s.model, 3) == 0);
    if (type != WK_F32)
        model_write_low(s.model, type, s.low);
    CHECK(model_set_compute(s.model, type, s.low, NULL) == 0);
    return s;
}

static void subject_free(struct subject *s)
{
    wk_model_free(s->model);
    free(s->params);
    free(s->grads);
    free(s->low);
}

/* Two passes, whose gradients are added. */
static void train(struct subject *s)
{
    struct wk_batch batch = batch_of();
    memset(s->grads, 0, s->model->count * sizeof(float));
    for (int pass = 0; pass < 2; pass++) {
        batch.position = 10 * pass;
        CHECK(model_forward(s->model, &batch, &s->loss, NULL) == 0);
        CHECK(model_backward(s->model, 1, NULL) == 0);
    }
}

static void go_on(struct subject *s)
{
    enum { FIRST = 3 };
    struct wk_batch all = batch_of();
    struct wk_batch first = {.tokens = tokens, .samples = SAMPLES, .length = FIRST};
    struct wk_batch next = {.tokens = tokens + COUNT - SAMPLES, .samples = SAMPLES, .length = 1};
    CHECK(model_logits(s->model, &all, s->logits, NULL) == 0);
    CHECK(decode_begin(s->model, SAMPLES, LENGTH, NULL) == 0);
    CHECK(decode_pass(s->model, &first, 0, NULL, NULL) == 0);
    CHECK(decode_pass(s->model, &next, FIRST, s->logits + SAMPLES * VOCAB, NULL) == 0);
    decode_end(s->model);
}

static void expect_same(const struct subject *a, const struct subject *b)
{
    CHECK(memcmp(&a->loss, &b->loss, sizeof(a->loss)) == 0);
    CHECK(memcmp(a->grads, b->grads, a->model->count * sizeof(float)) == 0);
    CHECK(memcmp(a->logits, b->logits, sizeof(a->logits)) == 0);
}

static void bits_are_those_of_two_launches(void)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    for (int kind = 0; kind < KINDS; kind++) {
        for (int t = 0; t < 3; t++) {
            struct subject apart = subject_new(kind, types[t], true);
            struct subject joined = subject_new(kind, types[t], false);
            for (int policy = WK_RECOMPUTE_NONE; policy <= WK_RECOMPUTE_OPERATIONS; policy++) {
                CHECK(wk_model_recompute_by(joined.model, (enum wk_recompute)policy, 0) == 0);
                train(&apart);
                train(&joined);
                go_on(&apart);
                go_on(&joined);
                expect_same(&apart, &joined);
            }
            subject_free(&apart);
            subject_free(&joined);
        }
    }
}

static int joined_in(const struct plan *plan)
{
    int count = 0;
    for (int i = 0; i < plan->n_launches; i++)
        count += plan->launches[i].sum != NULL;
    return count;
}

static struct plan *plan_of(struct subject *s, const struct trace_options *trace)
{
    struct plan *plan;
    CHECK(pass_plan(graph_model_of(s->model), trace, &(struct sizes){SAMPLES, LENGTH, 1}, &plan,
                    NULL) == 0);
    return plan;
}

/* Launches that are joined in a training pass, and in one for the first output. */
static void expect_joined(int kind, enum wk_dtype type, int trains, int evaluates)
{
    struct subject apart = subject_new(kind, type, true), joined = subject_new(kind, type, false);
    const struct trace_options passes[] = {{.trains = true, .drops = true}, {.outputs = 1}};
    const int wanted[] = {trains, evaluates};
    for (int i = 0; i < 2; i++) {
        const struct plan *one = plan_of(&joined, &passes[i]), *two = plan_of(&apart, &passes[i]);
        printf("kind %d in %s, pass %d: %d joined, %zu bytes, %zu apart\n", kind,
               wk_dtype_name(type), i, joined_in(one), one->region_bytes, two->region_bytes);
        CHECK(joined_in(one) == wanted[i] && joined_in(two) == 0);
        CHECK(one->n_launches + wanted[i] == two->n_launches);
        CHECK(one->region_bytes <= two->region_bytes);
    }
    subject_free(&apart);
    subject_free(&joined);
}

/* Without dropout the sum after a product is the product's own. What ends with a sum is the norm's
 * place if it is of the norm's type: not in AFTER in bf16, whose norms are in float. */
static void plans_join_what_takes_no_memory(void)
{
    expect_joined(GPT, WK_F32, LAYERS, 0);
    expect_joined(GPT, WK_BF16, LAYERS, 0);
    expect_joined(LLAMA, WK_F32, LAYERS, 0);
    expect_joined(AFTER, WK_F32, 2 * LAYERS, 0);
    expect_joined(AFTER, WK_BF16, 0, 0);
    expect_joined(STREAM, WK_F32, 2 * LAYERS, 2 * LAYERS);
    expect_joined(STREAM, WK_BF16, LAYERS, LAYERS);
}

/* What is computed again is joined, too, where both are at one place; nothing is computed twice. */
static void what_is_computed_again_is_joined(void)
{
    struct subject joined = subject_new(STREAM, WK_F32, false);
    struct subject apart = subject_new(STREAM, WK_F32, true);
    const struct trace_options trains = {.trains = true, .drops = true};
    CHECK(wk_model_recompute_by(joined.model, WK_RECOMPUTE_BLOCKS, 0) == 0);
    CHECK(wk_model_recompute_by(apart.model, WK_RECOMPUTE_BLOCKS, 0) == 0);
    const struct plan *one = plan_of(&joined, &trains), *two = plan_of(&apart, &trains);
    int again = 0;
    for (int i = 0; i < one->n_launches; i++)
        again += one->launches[i].sum && one->launches[i].again;
    CHECK(again == LAYERS);
    CHECK(one->n_launches + joined_in(one) == two->n_launches);
    subject_free(&joined);
    subject_free(&apart);
}

/* Slopes by differences along the gradient: the change of the loss for a small step. */
static void gradients_are_slopes(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct subject s = subject_new(kind, WK_F32, false);
        struct wk_batch batch = batch_of();
        double square = 0, loss[2];
        CHECK(model_forward(s.model, &batch, &s.loss, NULL) == 0);
        CHECK(model_backward(s.model, 1, NULL) == 0);
        for (size_t i = 0; i < s.model->count; i++)
            square += (double)s.grads[i] * (double)s.grads[i];
        for (int side = 0; side < 2; side++) {
            double step = (side ? -4e-3 : 2e-3) / sqrt(square);
            for (size_t i = 0; i < s.model->count; i++)
                s.params[i] += (float)(step * (double)s.grads[i]);
            CHECK(model_forward(s.model, &batch, &loss[side], NULL) == 0);
        }
        double slope = (loss[0] - loss[1]) / 4e-3;
        printf("kind %d: slope %g, gradient %g\n", kind, slope, sqrt(square));
        CHECK(fabs(slope - sqrt(square)) < 5e-3 * sqrt(square));
        subject_free(&s);
    }
}

/* Sums that stay as they are: of a repeated value; of another block; with an operation between; of
 * a norm with a weight of another block. */
static struct wk_tensor *apart(struct wk_tensor *x)
{
    struct wk_graph *g = x->graph;
    struct wk_tensor *ones = wk_graph_param(g, "ones", WK_SHAPE(WIDTH), NULL);
    x = wk_layer_norm(wk_op_add(wk_op_tanh(x), ones), "a");
    struct wk_tensor *sum = wk_op_add(x, wk_op_tanh(x));
    struct wk_tensor *other = wk_op_silu(sum);
    x = wk_op_multiply(wk_layer_norm(sum, "b"), other);
    sum = wk_op_add(x, wk_op_silu(x));
    wk_graph_scope(g, "rest%d", g->n_blocks);
    x = wk_layer_norm(sum, "c");
    return wk_op_rms_norm(wk_op_add(x, wk_op_tanh(x)), ones, 1e-5);
}

static void other_sums_are_left_alone(void)
{
    const struct trace_options trains = {.trains = true, .drops = true};
    struct subject s = {.model = text_model(apart)};
    CHECK(joined_in(plan_of(&s, &trains)) == 0);
    wk_model_free(s.model);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(bits_are_those_of_two_launches),   CHECK_CASE(plans_join_what_takes_no_memory),
        CHECK_CASE(what_is_computed_again_is_joined), CHECK_CASE(gradients_are_slopes),
        CHECK_CASE(other_sums_are_left_alone),        {0},
    };
    return check_all(cases, argc, argv);
}
