/* Operations of the program's own in passes of a model: errors that a function returns, repeated
 * forward passes, types, devices, decoding, and what they own. */
#include <stdlib.h>
#include <string.h>

#include <worker/custom_op.h>
#include <worker/worker.h>

#include "common/base/kept.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/graph/graph_model.h"
#include "libworker/nn/decode.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

enum { SAMPLES = 3, WIDTH = 8, COUNT = SAMPLES * WIDTH };

/* What the operation's functions get as their user pointer. */
struct seen {
    int forwards, backwards, frees;
    bool fails_forward, fails_backward, fails_silently;
    bool trains;
    enum wk_dtype x, weight, result; /* of the last forward call */
};

static int fail(struct wk_op_call *call, const struct seen *seen)
{
    return seen->fails_silently ? 7 : wk_op_fail(call, "value %d is odd", 3);
}

static int square_forward(struct wk_op_call *call)
{
    struct seen *seen = call->user;
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    seen->forwards++;
    seen->trains = call->trains;
    CHECK(call->samples == SAMPLES && !call->stream);
    if (seen->fails_forward)
        return fail(call, seen);
    for (int64_t i = 0; i < call->out[0].count; i++)
        y[i] = x[i] * x[i];
    return 0;
}

static int square_backward(struct wk_op_call *call)
{
    struct seen *seen = call->user;
    const float *x = call->in[0].data, *dy = call->d_out.data;
    float *dx = call->d_in[0].data;
    seen->backwards++;
    if (seen->fails_backward)
        return fail(call, seen);
    for (int64_t i = 0; i < call->d_out.count; i++)
        dx[i] += 2 * x[i] * dy[i];
    return 0;
}

static void count_free(void *user)
{
    ((struct seen *)user)->frees++;
}

static struct wk_custom_op square_of(const struct wk_tensor *x, struct seen *seen)
{
    return (struct wk_custom_op){.name = "square",
                                 .functions = {{"cpu", square_forward, square_backward}},
                                 .result = {.like = x},
                                 .keeps = WK_OP_IN(0),
                                 .user = seen,
                                 .free_user = count_free};
}

static struct wk_tensor *custom(struct wk_tensor *x, const struct wk_custom_op *op)
{
    return wk_op_custom(&x, 1, op);
}

static struct wk_graph *graph_of(struct seen *seen)
{
    struct wk_graph *g = wk_graph_new("own");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WIDTH);
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, shape);
    struct wk_tensor *y = wk_graph_input(g, "y", WK_F32, shape);
    wk_graph_block(g, "first");
    x = wk_layer_linear(x, "first", WIDTH);
    wk_graph_block(g, "middle");
    struct wk_custom_op op = square_of(x, seen);
    x = wk_layer_linear(custom(x, &op), "middle", WIDTH);
    wk_graph_block(g, "last");
    x = wk_layer_linear(x, "last", WIDTH);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_squared_error(x, y), NULL);
    return g;
}

/* A model with memory, on the CPU or, with its bits, on the rehearsal device. */
struct scene {
    struct wk_model *model;
    struct device *device;
    struct queue *queue;
    float *params, *grads, *values;
    uint16_t *low;
    void *on_device[3];
    size_t bytes[3];
    struct wk_batch_tensor tensors[2];
    struct wk_batch batch;
};

static void *sent(struct scene *s, int i, const void *from, size_t bytes)
{
    CHECK(device_memory_new(s->device, bytes, &s->on_device[i], NULL) == 0);
    CHECK(queue_write(s->queue, s->on_device[i], from, bytes, NULL) == 0);
    s->bytes[i] = bytes;
    return s->on_device[i];
}

static void rehearse(struct scene *s, enum wk_dtype type, uint64_t seed)
{
    struct rehearsal_options options = {.seed = seed};
    size_t count = s->model->count;
    CHECK(rehearsal_new(&options, &s->device, NULL) == 0);
    CHECK(queue_new(s->device, &s->queue, NULL) == 0);
    float *params = sent(s, 0, s->params, count * sizeof(*params));
    float *grads = sent(s, 1, s->grads, count * sizeof(*grads));
    uint16_t *low = sent(s, 2, s->low, count * sizeof(*low));
    CHECK(model_move(s->model, s->queue, NULL) == 0);
    CHECK(model_bind(s->model, params, grads) == 0);
    CHECK(model_set_compute(s->model, type, low, NULL) == 0);
}

static void scene_open(struct scene *s, struct wk_graph *graph, enum wk_dtype type)
{
    *s = (struct scene){0};
    CHECK(wk_graph_model(graph, &s->model) == 0);
    s->params = calloc(s->model->count, sizeof(*s->params));
    s->grads = calloc(s->model->count, sizeof(*s->grads));
    s->low = calloc(s->model->count, sizeof(*s->low));
    s->values = calloc(2 * COUNT, sizeof(*s->values));
    for (uint64_t i = 0; i < 2 * COUNT; i++)
        s->values[i] = (float)random_uniform(1, i);
    CHECK(model_bind(s->model, s->params, s->grads) == 0 && wk_model_init(s->model, 3) == 0);
    if (type != WK_F32)
        model_write_low(s->model, type, s->low);
    CHECK(model_set_compute(s->model, type, s->low, NULL) == 0);
    s->tensors[0] = (struct wk_batch_tensor){"x", s->values, WK_F32, WIDTH};
    s->tensors[1] = (struct wk_batch_tensor){"y", s->values + COUNT, WK_F32, WIDTH};
    s->batch = (struct wk_batch){.tensors = s->tensors,
                                 .n_tensors = 2,
                                 .samples = SAMPLES,
                                 .global_samples = SAMPLES,
                                 .denominator = SAMPLES};
}

static void scene_close(struct scene *s)
{
    if (s->device)
        CHECK(queue_read(s->queue, s->grads, s->on_device[1], s->bytes[1], NULL) <= 0);
    wk_model_free(s->model);
    for (int i = 0; i < 3 && s->device; i++)
        device_memory_free(s->device, s->on_device[i], s->bytes[i]);
    queue_free(s->queue);
    device_free(s->device);
    free(s->params);
    free(s->low);
    free(s->values);
}

static void note_ready(void *arg, int index)
{
    ((bool *)arg)[index] = true;
}

/* A pass that fails, in which the sentence has these words. */
static void fail_with(struct seen seen, bool rehearsed, const char *words)
{
    struct scene s;
    struct error err = {0};
    bool ready[6] = {false};
    double loss;
    scene_open(&s, graph_of(&seen), WK_F32);
    if (rehearsed)
        rehearse(&s, WK_F32, 1);
    s.model->grad_ready = note_ready;
    s.model->grad_ready_arg = ready;
    int rc = model_forward(s.model, &s.batch, &loss, &err);
    CHECK(seen.fails_forward == (rc != 0));
    if (!rc)
        rc = model_backward(s.model, 1, &err);
    printf("%s\n", err.text);
    CHECK(rc == WK_EINVAL && strstr(err.text, words));
    CHECK(rehearsed || !ready[0]); /* nothing after the function */
    scene_close(&s);
    free(s.grads);
    CHECK(seen.frees == 1);
}

static void an_error_of_a_function_ends_the_pass(void)
{
    for (int rehearsed = 0; rehearsed < 2; rehearsed++) {
        fail_with((struct seen){.fails_forward = true}, rehearsed,
                  "square in block middle: forward failed: value 3 is odd");
        fail_with((struct seen){.fails_backward = true}, rehearsed,
                  "square in block middle: backward failed: value 3 is odd");
        fail_with((struct seen){.fails_backward = true, .fails_silently = true}, rehearsed,
                  "square in block middle: backward failed: it returned 7");
    }
}

/* Its backward pass comes last. */
static struct wk_graph *graph_of_param(struct seen *seen)
{
    struct wk_graph *g = wk_graph_new("own");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *bias = wk_graph_param(g, "bias", WK_SHAPE(WIDTH), NULL);
    struct wk_custom_op op = square_of(bias, seen);
    x = wk_op_multiply(x, custom(bias, &op));
    wk_graph_loss(g, "loss", x, NULL);
    return g;
}

static void also_in_the_last_launch_of_a_device_that_runs_later(void)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct seen seen = {.fails_backward = true};
        struct scene s;
        struct error err = {0};
        double loss;
        scene_open(&s, graph_of_param(&seen), WK_F32);
        rehearse(&s, WK_F32, seed);
        CHECK(model_forward(s.model, &s.batch, &loss, NULL) == 0);
        CHECK(model_backward(s.model, 1, &err) == WK_EINVAL);
        CHECK(strstr(err.text, "square: backward failed: value 3 is odd"));
        scene_close(&s);
        free(s.grads);
    }
}

/* The gradients of one pass; the caller's to free. */
static float *gradients(struct seen *seen, enum wk_dtype type, bool again, bool rehearsed)
{
    struct scene s;
    double loss;
    *seen = (struct seen){0};
    scene_open(&s, graph_of(seen), type);
    wk_model_recompute(s.model, again);
    if (rehearsed)
        rehearse(&s, type, 1);
    CHECK(model_forward(s.model, &s.batch, &loss, NULL) == 0);
    CHECK(model_backward(s.model, 1, NULL) == 0);
    scene_close(&s);
    return s.grads;
}

static size_t count_params(void)
{
    struct seen seen = {0};
    struct scene s;
    scene_open(&s, graph_of(&seen), WK_F32);
    size_t count = s.model->count;
    scene_close(&s);
    free(s.grads);
    return count;
}

static void recomputation_and_the_rehearsal_device_have_the_same_bits(void)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    size_t count = count_params();
    struct seen seen;
    for (int t = 0; t < 3; t++) {
        float *kept = gradients(&seen, types[t], false, false);
        CHECK(seen.forwards == 1 && seen.backwards == 1 && seen.trains);
        float *again = gradients(&seen, types[t], true, false);
        CHECK(seen.forwards == 2 && seen.backwards == 1);
        float *rehearsed = gradients(&seen, types[t], true, true);
        CHECK(memcmp(kept, again, count * sizeof(*kept)) == 0);
        CHECK(memcmp(kept, rehearsed, count * sizeof(*kept)) == 0);
        free(kept);
        free(again);
        free(rehearsed);
    }
}

/* x [samples, WIDTH] through a function that records types, with a matrix beside it. */
static int record_forward(struct wk_op_call *call)
{
    struct seen *seen = call->user;
    seen->forwards++;
    seen->x = call->in[0].type;
    seen->weight = call->in[1].type;
    seen->result = call->out[0].type;
    memset(call->out[0].data, 0, (size_t)call->out[0].count * wk_dtype_bytes(seen->result));
    return 0;
}

static struct wk_graph *recorder(struct seen *seen, unsigned as_kept)
{
    struct wk_graph *g = wk_graph_new("recorder");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    struct wk_tensor *weight = wk_graph_param(g, "weight", WK_SHAPE(WIDTH, WIDTH), NULL);
    x = wk_layer_linear(x, "first", WIDTH);
    struct wk_custom_op op = {.name = "record",
                              .functions = {{"cpu", record_forward, NULL}},
                              .result = {.like = x},
                              .as_kept = as_kept,
                              .user = seen};
    x = wk_op_custom((struct wk_tensor *[]){x, weight}, 2, &op);
    wk_graph_output(g, "logits", wk_layer_linear(x, "last", WIDTH));
    return g;
}

static void evaluate(struct scene *s, int expected, struct error *err)
{
    float logits[COUNT];
    double loss;
    struct wk_outputs outputs = {.logits = logits};
    CHECK(model_evaluate(s->model, &s->batch, &loss, &outputs, err) == expected);
}

static void functions_get_floats_or_what_they_ask_for(void)
{
    struct seen seen = {0};
    struct scene s;
    scene_open(&s, recorder(&seen, 0), WK_BF16);
    evaluate(&s, 0, NULL);
    CHECK(seen.forwards == 1 && seen.x == WK_F32 && seen.weight == WK_F32);
    CHECK(seen.result == WK_F32);
    scene_close(&s);
    free(s.grads);
    scene_open(&s, recorder(&seen, WK_OP_IN(0) | WK_OP_IN(1) | WK_OP_OUT(0)), WK_BF16);
    evaluate(&s, 0, NULL);
    CHECK(seen.x == WK_BF16 && seen.weight == WK_BF16 && seen.result == WK_BF16);
    scene_close(&s);
    free(s.grads);
}

static void an_evaluation_says_that_it_is_one(void)
{
    struct seen seen = {0};
    struct scene s;
    scene_open(&s, graph_of(&seen), WK_F32);
    seen.trains = true;
    evaluate(&s, 0, NULL);
    CHECK(seen.forwards == 1 && !seen.trains);
    scene_close(&s);
    free(s.grads);
}

/* x → linear → square, as `op` has it, with a loss of that. */
static struct wk_graph *graph_with(struct wk_custom_op *op, bool stops)
{
    struct wk_graph *g = wk_graph_new("with");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WIDTH);
    struct wk_tensor *x = wk_layer_linear(wk_graph_input(g, "x", WK_F32, shape), "first", WIDTH);
    op->result.like = x;
    struct wk_tensor *y = custom(x, op);
    wk_graph_output(g, "logits", y);
    wk_graph_loss(g, "loss", wk_op_squared_error(x, stops ? wk_op_stop_gradient(y) : y), NULL);
    return g;
}

static void a_gradient_without_a_function_is_refused(void)
{
    struct seen seen = {0};
    struct wk_custom_op op = square_of(NULL, &seen);
    struct wk_model *model = NULL;
    op.functions[0].backward = NULL;
    CHECK(wk_graph_model(graph_with(&op, false), &model) == WK_EINVAL);
    printf("%s\n", error_kept());
    CHECK(strstr(error_kept(), "square has no backward function"));
    CHECK(seen.frees == 1);
    CHECK(wk_graph_model(graph_with(&op, true), &model) == 0);
    wk_model_free(model);
    op.constants = WK_OP_IN(0);
    CHECK(wk_graph_model(graph_with(&op, false), &model) == 0);
    wk_model_free(model);
    CHECK(seen.frees == 3);
}

static void a_device_without_functions_is_refused(void)
{
    struct seen seen = {0};
    struct wk_custom_op op = square_of(NULL, &seen);
    struct scene s;
    struct error err = {0};
    op.functions[0].device = "tpu";
    scene_open(&s, graph_with(&op, false), WK_F32);
    evaluate(&s, WK_EUNSUPPORTED, &err);
    printf("%s\n", err.text);
    CHECK(strstr(err.text, "square has no functions for the device cpu; it has for tpu"));
    scene_close(&s);
    free(s.grads);
}

static void what_the_program_gave_is_freed_once(void)
{
    struct seen seen = {0};
    struct wk_custom_op op = square_of(NULL, &seen);
    CHECK(!custom(NULL, &op) && seen.frees == 1);
    struct wk_graph *g = wk_graph_new("refused");
    struct wk_tensor *x = wk_graph_input(g, "x", WK_F32, WK_SHAPE(WK_SAMPLES, WIDTH));
    op.result.like = x;
    CHECK(custom(x, &op));
    op.n_saved = -1;
    CHECK(!custom(x, &op) && !custom(x, &op) && seen.frees == 1);
    wk_graph_free(g);
    CHECK(seen.frees == 4);
}

static int copy_forward(struct wk_op_call *call)
{
    memcpy(call->out[0].data, call->in[0].data, (size_t)call->out[0].count * sizeof(float));
    return 0;
}

static struct wk_graph *texts(bool each_position)
{
    struct wk_graph *g = wk_graph_new("texts");
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    wk_graph_max_length(g, 4);
    struct wk_tensor *x = wk_layer_embedding(tokens, "embed", WIDTH, WIDTH);
    struct wk_custom_op op = {.name = "copy",
                              .functions = {{"cpu", copy_forward, NULL}},
                              .result = {.like = x},
                              .each_position = each_position};
    wk_graph_output(g, "logits", custom(x, &op));
    return g;
}

static void only_what_knows_positions_decodes(void)
{
    static const int32_t tokens[SAMPLES] = {1, 2, 3};
    struct wk_batch batch = {.tokens = tokens, .samples = SAMPLES, .length = 1};
    float logits[COUNT];
    struct error err = {0};
    struct scene s;
    scene_open(&s, texts(false), WK_F32);
    CHECK(decode_begin(s.model, SAMPLES, 4, &err) == WK_EUNSUPPORTED);
    printf("%s\n", err.text);
    CHECK(strstr(err.text, "copy: it mixes positions"));
    scene_close(&s);
    free(s.grads);
    scene_open(&s, texts(true), WK_F32);
    CHECK(decode_begin(s.model, SAMPLES, 4, NULL) == 0);
    CHECK(decode_pass(s.model, &batch, 2, logits, NULL) == 0);
    for (int i = 0; i < SAMPLES; i++)
        CHECK(!memcmp(logits + i * WIDTH, s.params + tokens[i] * WIDTH, WIDTH * sizeof(float)));
    decode_end(s.model);
    scene_close(&s);
    free(s.grads);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(an_error_of_a_function_ends_the_pass),
        CHECK_CASE(also_in_the_last_launch_of_a_device_that_runs_later),
        CHECK_CASE(recomputation_and_the_rehearsal_device_have_the_same_bits),
        CHECK_CASE(functions_get_floats_or_what_they_ask_for),
        CHECK_CASE(an_evaluation_says_that_it_is_one),
        CHECK_CASE(a_gradient_without_a_function_is_refused),
        CHECK_CASE(a_device_without_functions_is_refused),
        CHECK_CASE(what_the_program_gave_is_freed_once),
        CHECK_CASE(only_what_knows_positions_decodes),
        {0},
    };
    return check_all(cases, argc, argv);
}
