/* Every kind of model, by one set of questions: is its gradient the slope of its loss, are its
 * blocks entered and left around every use, does computing activations again change a bit, how far
 * are bf16 and f16 from float.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/random.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/nn/fixture.h"

enum { SAMPLES = 3, LENGTH = 70, VOCAB = 37, COUNT = SAMPLES * LENGTH, LAYERS = 3 };
enum { GPT, LLAMA, LLAMA_TIED, LLAMA_ALL, MLP, KINDS };

static const char *const kind_names[KINDS] = {"gpt", "llama", "llama, tied",
                                              "llama with all it can have", "mlp"};

/* What Mistral, Qwen2, Qwen3 and Llama 3.1 have, at once. */
static void add_all(struct wk_llama_config *llama)
{
    llama->head_size = 10;
    llama->qkv_bias = llama->out_bias = llama->mlp_bias = llama->qk_norm = true;
    llama->window = LENGTH / 3;
    llama->window_layer = 1;
    llama->rope_scaling = (struct wk_rope_scaling){
        .type = WK_ROPE_LLAMA3, .factor = 8, .original_context = 32, .low = 1, .high = 4};
}

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {LAYERS, 2, 24, LENGTH, VOCAB};
    struct wk_llama_config llama = {.layers = LAYERS,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 24,
                                    .inner = 40,
                                    .context = LENGTH,
                                    .vocab = VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5,
                                    .tied = kind == LLAMA_TIED};
    struct wk_mlp_config mlp = {LAYERS, 5, 6, 24, LENGTH, VOCAB};
    if (kind == LLAMA_ALL)
        add_all(&llama);
    int rc = kind == GPT   ? wk_gpt_new(&gpt, &model)
             : kind == MLP ? wk_mlp_new(&mlp, &model)
                           : wk_llama_new(&llama, &model);
    cr_assert_eq(rc, 0);
    return model;
}

static struct fixture busy(int kind, const struct kernel_table *kernels)
{
    return fixture_busy(model_of(kind), kernels);
}

static int32_t tokens[COUNT], targets[COUNT];

static struct wk_batch batch_of(int64_t samples)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = i % 11 == 3 ? WK_IGNORED : (int32_t)(random_bits(2, i) % VOCAB);
    }
    return (struct wk_batch){
        .tokens = tokens, .targets = targets, .samples = samples, .length = LENGTH};
}

static void backward(struct fixture *f)
{
    model_zero_grad(f->model);
    cr_assert_eq(model_backward(f->model, 1, NULL), 0);
}

static void check_slopes(int kind, const struct kernel_table *kernels)
{
    struct wk_batch batch = batch_of(1);
    struct fixture f = busy(kind, kernels);
    cr_assert_eq(wk_model_label_smoothing(f.model, 0.1), 0);
    fixture_loss(f.model, &batch);
    backward(&f);
    fixture_expect_slopes(f.model, &batch, 1, 8e-3);
    fixture_free(&f);
}

Test(models, gradient_is_the_slope_of_the_loss)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_slopes(kind, kernel_cpu());
        check_slopes(kind, kernel_reference());
    }
}

Test(models, computing_activations_again_changes_no_bit)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16};
    for (int kind = 0; kind < KINDS; kind++) {
        for (int t = 0; t < 2; t++) {
            struct wk_batch batch = batch_of(SAMPLES);
            struct fixture f = busy(kind, kernel_cpu());
            uint16_t *low = calloc(f.model->count, sizeof(*low));
            model_write_low(f.model, WK_BF16, low);
            cr_assert_eq(model_set_compute(f.model, types[t], low, NULL), 0);
            double loss = fixture_loss(f.model, &batch);
            backward(&f);
            float *expected = malloc(f.model->count * sizeof(float));
            memcpy(expected, f.grads, f.model->count * sizeof(float));
            wk_model_recompute(f.model, true);
            cr_expect_eq(fixture_loss(f.model, &batch), loss);
            backward(&f);
            cr_expect_eq(memcmp(expected, f.grads, f.model->count * sizeof(float)), 0, "%s",
                         kind_names[kind]);
            free(expected);
            free(low);
            fixture_free(&f);
        }
    }
}

/* Parameters of a block exist only between its brackets: elsewhere they are NaN, or NULL. */
struct watch {
    struct wk_model *model;
    float *params; /* the true ones */
    int depth[LAYERS + 2];
    int log[64], n; /* blocks entered, in order; -1 - block when left */
    int fail_at;    /* block whose entry backward fails, or -1 */
};

static int enter(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct watch *w = arg;
    struct model_block b = model_block(w->model, block);
    w->log[w->n++] = block;
    if (pass == MODEL_BACKWARD && block == w->fail_at)
        return error_set(err, WK_EPEER, "a peer is gone");
    cr_assert_eq(w->depth[block]++, 0);
    for (int i = b.first; i < b.first + b.n_params; i++)
        w->model->params[i].data = w->params + w->model->params[i].offset;
    return 0;
}

static int leave(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct watch *w = arg;
    struct model_block b = model_block(w->model, block);
    (void)err;
    (void)pass;
    w->log[w->n++] = -1 - block;
    cr_assert_eq(w->depth[block]--, 1);
    for (int i = b.first; i < b.first + b.n_params; i++)
        w->model->params[i].data = NULL;
    return 0;
}

static void take_away(struct wk_model *model)
{
    for (int i = 0; i < model->n_params; i++)
        model->params[i].data = NULL;
}

Test(models, use_a_block_only_inside_its_brackets)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int again = 0; again < 2; again++) {
            struct wk_batch batch = batch_of(SAMPLES);
            struct fixture f = busy(kind, kernel_cpu());
            double loss = fixture_loss(f.model, &batch);
            backward(&f);
            float *expected = malloc(f.model->count * sizeof(float));
            memcpy(expected, f.grads, f.model->count * sizeof(float));
            struct watch w = {.model = f.model, .params = f.params, .fail_at = -1};
            f.model->hooks = (struct model_hooks){enter, leave, &w};
            wk_model_recompute(f.model, again);
            take_away(f.model);
            cr_expect_eq(fixture_loss(f.model, &batch), loss);
            cr_expect_eq(w.log[0], 0);
            cr_expect_eq(w.log[2], 1);
            int forward_n = w.n;
            backward(&f);
            cr_expect_eq(w.log[forward_n], LAYERS + 1);
            cr_expect_eq(w.log[w.n - 1], -1);
            cr_expect_eq(memcmp(expected, f.grads, f.model->count * sizeof(float)), 0, "%s",
                         kind_names[kind]);
            free(expected);
            fixture_free(&f);
        }
    }
}

Test(models, a_failing_hook_ends_the_pass)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wk_batch batch = batch_of(1);
        struct fixture f = busy(kind, kernel_cpu());
        struct watch w = {.model = f.model, .params = f.params, .fail_at = 2};
        struct error err = {0};
        f.model->hooks = (struct model_hooks){enter, leave, &w};
        fixture_loss(f.model, &batch);
        cr_expect_eq(model_backward(f.model, 1, &err), WK_EPEER);
        cr_expect_not_null(strstr(err.text, "a peer is gone"));
        cr_expect_eq(w.log[w.n - 1], 2);
        fixture_free(&f);
    }
}

Test(models, blocks_cover_the_arena_in_order)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wk_model *model = model_of(kind);
        size_t end = 0;
        int params = 0;
        for (int b = 0; b < model->n_blocks; b++) {
            struct model_block block = model_block(model, b);
            cr_expect_gt(block.n_params, 0);
            cr_expect_eq(block.offset, end);
            cr_expect_eq(block.first, params);
            end += block.count;
            params += block.n_params;
        }
        cr_expect_eq(end, model->count);
        cr_expect_eq(params, model->n_params);
        wk_model_free(model);
    }
}

/* Gradients in the narrow type point where those in float do: the angle between them is small.
 * Values are off by some units of the type, one way and the other; what they have in common, which
 * is all that a loss and an angle over thousands of them show, by two at most. */
static void check_low(int kind, enum wk_dtype type, double tolerance)
{
    struct wk_batch batch = batch_of(SAMPLES);
    struct fixture f = busy(kind, kernel_cpu());
    uint16_t *low = calloc(f.model->count, sizeof(*low));
    double loss = fixture_loss(f.model, &batch), products = 0, ours = 0, theirs = 0;
    backward(&f);
    float *expected = malloc(f.model->count * sizeof(float));
    memcpy(expected, f.grads, f.model->count * sizeof(float));
    model_write_low(f.model, type, low);
    cr_assert_eq(model_set_compute(f.model, type, low, NULL), 0);
    double rounded = fixture_loss(f.model, &batch);
    backward(&f);
    for (size_t i = 0; i < f.model->count; i++) {
        products += (double)f.grads[i] * (double)expected[i];
        ours += (double)f.grads[i] * (double)f.grads[i];
        theirs += (double)expected[i] * (double)expected[i];
    }
    cr_expect_float_eq(rounded, loss, tolerance * loss, "%s: %g, not %g", kind_names[kind], rounded,
                       loss);
    cr_expect_neq(rounded, loss);
    cr_expect_gt(products / sqrt(ours * theirs), 1 - tolerance, "%s: %g", kind_names[kind],
                 products / sqrt(ours * theirs));
    cr_expect_float_eq(sqrt(ours / theirs), 1, 4 * tolerance);
    cr_assert_eq(model_set_compute(f.model, WK_F32, NULL, NULL), 0);
    cr_expect_eq(fixture_loss(f.model, &batch), loss);
    cr_expect_eq(model_set_compute(f.model, WK_F64, NULL, NULL), WK_EINVAL);
    free(expected);
    free(low);
    fixture_free(&f);
}

Test(models, in_bf16_and_f16_are_near_float)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_low(kind, WK_BF16, 2 * ROUNDING_BF16);
        check_low(kind, WK_F16, 2 * ROUNDING_F16);
    }
}

/* The instruction or without it: products of the same rounded factors, summed in another order. */
Test(models, in_bf16_are_the_same_on_every_machine)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wk_batch batch = batch_of(1);
        double expected = 0;
        const struct kernel_table *kernels;
        for (int i = 0; (kernels = kernel_cpu_variant(i)); i++) {
            struct fixture f = busy(kind, kernels);
            uint16_t *low = calloc(f.model->count, sizeof(*low));
            model_write_low(f.model, WK_BF16, low);
            cr_assert_eq(model_set_compute(f.model, WK_BF16, low, NULL), 0);
            double loss = fixture_loss(f.model, &batch);
            expected = i ? expected : loss;
            /* activations are rounded again in every layer, so a last bit may cost a bf16 step;
             * the loss is a mean over LENGTH positions */
            cr_expect_float_eq(loss, expected, ROUNDING_BF16 / sqrt(LENGTH) * expected,
                               "%s, %s: %.9g, not %.9g", kind_names[kind], kernels->name, loss,
                               expected);
            free(low);
            fixture_free(&f);
        }
    }
}

Test(models, denominator_counts_targets_that_count)
{
    struct wk_batch batch = batch_of(1);
    struct fixture f = busy(LLAMA, kernel_cpu());
    int counted = 0;
    for (int i = 0; i < LENGTH; i++)
        counted += targets[i] != WK_IGNORED;
    double mean = fixture_loss(f.model, &batch);
    batch.denominator = 1;
    cr_expect_float_eq(fixture_loss(f.model, &batch) / counted, mean,
                       rounding_apart(ROUNDING_F64, LENGTH) * mean);
    for (int i = 0; i < LENGTH; i++)
        targets[i] = WK_IGNORED;
    batch.denominator = 0;
    cr_expect_eq(fixture_loss(f.model, &batch), 0);
    cr_expect_eq(wk_model_label_smoothing(f.model, 1), WK_EINVAL);
    fixture_free(&f);
}

/* The slope is that of the pass with the same things dropped; twice the same pass drops the same.
 */
Test(models, with_dropout_have_the_gradient_of_what_is_left)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wk_batch batch = batch_of(1);
        struct fixture f = busy(kind, kernel_cpu());
        double whole = fixture_loss(f.model, &batch);
        if (kind == MLP) {
            cr_expect_eq(wk_model_dropout(f.model, 0.2, 1), WK_EUNSUPPORTED);
            fixture_free(&f);
            continue;
        }
        cr_assert_eq(wk_model_dropout(f.model, 0.2, 1), 0);
        double loss = fixture_loss(f.model, &batch);
        cr_expect_neq(loss, whole);
        backward(&f);
        float *expected = malloc(f.model->count * sizeof(float));
        memcpy(expected, f.grads, f.model->count * sizeof(float));
        fixture_expect_slopes(f.model, &batch, 5, 8e-3);
        wk_model_recompute(f.model, true);
        cr_expect_eq(fixture_loss(f.model, &batch), loss);
        backward(&f);
        cr_expect_eq(memcmp(expected, f.grads, f.model->count * sizeof(float)), 0);
        batch.position = 1;
        cr_expect_neq(fixture_loss(f.model, &batch), loss);
        cr_assert_eq(wk_model_dropout(f.model, 0, 1), 0);
        cr_expect_eq(fixture_loss(f.model, &batch), whole);
        cr_expect_eq(wk_model_dropout(f.model, 1, 1), WK_EINVAL);
        free(expected);
        fixture_free(&f);
    }
}

/* A sample drops the same whatever samples lie beside it: the sum over pieces is the whole. */
Test(models, drop_the_same_however_samples_are_dealt)
{
    struct wk_batch batch = batch_of(SAMPLES);
    struct fixture f = busy(GPT, kernel_cpu());
    cr_assert_eq(wk_model_dropout(f.model, 0.3, 7), 0);
    batch.denominator = 1;
    double whole = fixture_loss(f.model, &batch), sum = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        struct wk_batch piece = batch;
        piece.tokens += i * LENGTH;
        piece.targets += i * LENGTH;
        piece.samples = 1;
        piece.first = i;
        sum += fixture_loss(f.model, &piece);
    }
    /* norms, products of two and a half widths and an inner one, a softmax and its sum, per layer
     */
    const double forward = LAYERS * (2.0 * 24 + 2.5 * 24 + 4 * 24 + 2 * LENGTH) + 24 + VOCAB;
    cr_expect_float_eq(sum, whole, rounding_bound(forward) * whole);
    fixture_free(&f);
}

Test(models, refuse_shapes_that_make_no_sense)
{
    struct wk_model *model = NULL;
    struct wk_llama_config good = {.layers = 2,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .width = 24,
                                   .inner = 40,
                                   .context = 8,
                                   .vocab = 20,
                                   .rope_theta = 10000,
                                   .norm_epsilon = 1e-5};
    struct wk_llama_config wrong[11];
    for (int i = 0; i < 11; i++)
        wrong[i] = good;
    wrong[0].kv_heads = 3;
    wrong[1].heads = 8; /* heads of 3: no pairs to turn */
    wrong[2].inner = 0;
    wrong[3].rope_theta = 0;
    wrong[4].norm_epsilon = NAN;
    wrong[5].layers = 0;
    wrong[6].head_size = 7;
    wrong[7].head_size = 258; /* more than the kernels take */
    wrong[8].window = -1;
    wrong[9].window_layer = 3;
    wrong[10].rope_scaling = (struct wk_rope_scaling){.type = WK_ROPE_LINEAR, .factor = 0.5};
    for (int i = 0; i < 11; i++)
        cr_expect_eq(wk_llama_new(&wrong[i], &model), WK_EINVAL, "%d", i);
    struct wk_mlp_config mlp = {1, 0, 4, 4, 4, 4};
    cr_expect_eq(wk_mlp_new(&mlp, &model), WK_EINVAL);
    cr_expect_null(model);
}
