/* What training is said to take, against the model, its plan, bound optimizers and closed forms. */
#include <criterion/criterion.h>
#include <string.h>

#include "libworker/estimate/estimate.h"
#include "libworker/graph/pass.h"

enum { LAYERS = 3, HEADS = 2, WIDTH = 64, CONTEXT = 32, VOCAB = 96, SAMPLES = 5 };

static const struct wk_adamw_options adam = {1e-3, 0.9, 0.999, 1e-8, 0.1};

static struct wk_model *make_gpt(void)
{
    struct wk_model *model;
    struct wk_gpt_config config = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    cr_assert_eq(wk_gpt_new(&config, &model), 0);
    return model;
}

static struct wk_optimizer *make_adam(void)
{
    struct wk_optimizer *optimizer;
    cr_assert_eq(wk_adamw_new(&adam, &optimizer), 0);
    return optimizer;
}

static struct estimate_options options_of(const struct wk_optimizer *optimizer)
{
    return (struct estimate_options){.world = 1,
                                     .samples = SAMPLES,
                                     .compute = WK_F32,
                                     .prefetch = 1,
                                     .bucket_bytes = 1 << 20,
                                     .optimizer = optimizer};
}

static struct estimate estimate(struct wk_model *model, const struct estimate_options *options)
{
    struct estimate ret;
    struct error err = {0};
    int rc = estimate_training(model, options, &ret, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    return ret;
}

Test(estimate, a_replica_is_the_models_count_and_its_plan)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    struct estimate e = estimate(model, &options);
    int64_t count = (int64_t)wk_model_count(model);
    struct plan *plan;
    struct error err = {0};
    cr_assert_eq(pass_plan(graph_model_of(model), &(struct trace_options){.trains = true},
                           &(struct sizes){SAMPLES, CONTEXT}, &plan, &err),
                 0);
    cr_expect_eq(e.parameters, 4 * count);
    cr_expect_eq(e.gradients, 4 * count);
    cr_expect_eq(e.optimizer, 8 * count);
    cr_expect_eq(e.low, 0);
    cr_expect_eq(e.activations, (int64_t)plan->region_bytes);
    cr_expect_eq(e.batch, 2 * 4 * SAMPLES * CONTEXT);
    cr_expect_eq(e.communication, 0);
    cr_expect_eq(e.sent, 0);
    cr_expect_eq(e.total, 16 * count + e.activations + e.batch);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

/* Two per weight and token forward, four backward, for every product of a step: 12 width^2 weights
 * a layer and the tied head; attention's two products see half of the square. What is no product is
 * a few percent at this width. */
Test(estimate, flop_are_those_of_the_products)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    struct estimate e = estimate(model, &options);
    double tokens = SAMPLES * CONTEXT;
    double weights = 12.0 * WIDTH * WIDTH * LAYERS + (double)VOCAB * WIDTH;
    double forward = tokens * 2 * (weights + (double)LAYERS * WIDTH * CONTEXT);
    cr_expect(e.forward_flop > 0.97 * forward && e.forward_flop < 1.10 * forward, "%g of %g",
              e.forward_flop, forward);
    cr_expect(e.backward_flop > 1.9 * forward && e.backward_flop < 2.3 * forward, "%g of 2 x %g",
              e.backward_flop, forward);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

Test(estimate, recomputation_trades_activations_for_flop)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    struct estimate kept = estimate(model, &options);
    options.recompute = WK_RECOMPUTE_BLOCKS;
    struct estimate again = estimate(model, &options);
    cr_expect_lt(again.activations, kept.activations);
    cr_expect_gt(again.backward_flop, kept.backward_flop);
    cr_expect_eq(again.forward_flop, kept.forward_flop);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

Test(estimate, strategies_divide_what_they_cut)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    int64_t count = (int64_t)wk_model_count(model), part = (count + 7) / 8;
    options.world = 8;
    options.compute = WK_BF16;
    struct estimate ddp = estimate(model, &options);
    cr_expect_eq(ddp.parameters + ddp.low + ddp.gradients + ddp.optimizer, 18 * count);
    options.strategy = STRATEGY_ZERO1;
    struct estimate zero1 = estimate(model, &options);
    cr_expect_eq(zero1.parameters + zero1.low + zero1.gradients + zero1.optimizer,
                 6 * count + 12 * part);
    options.strategy = STRATEGY_FSDP;
    struct estimate fsdp = estimate(model, &options);
    cr_expect_eq(fsdp.parameters + fsdp.optimizer, 12 * part);
    cr_expect_lt(fsdp.low, 2 * count);
    cr_expect_lt(fsdp.total, zero1.total);
    cr_expect_float_eq(fsdp.sent, 7.0 / 8 * (double)count * (4 + 2 + 2), 1);
    cr_expect_eq(fsdp.activations, ddp.activations);
    cr_expect_gt(fsdp.communication, 0);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

/* Bytes of the first block, of the largest other one, and of blocks of layers. */
Test(estimate, fsdp_has_the_blocks_in_use)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    int64_t count = (int64_t)wk_model_count(model), part = (count + 3) / 4;
    int64_t first = (int64_t)model_block(model, 0).count;
    int64_t layer = (int64_t)model_block(model, 1).count;
    int64_t last = (int64_t)model_block(model, model->n_blocks - 1).count;
    cr_assert(model->n_blocks >= LAYERS + 1 && layer > last);
    options.strategy = STRATEGY_FSDP;
    options.world = 4;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        options.prefetch = prefetch;
        struct estimate e = estimate(model, &options);
        int64_t gathered = e.parameters / 4 - part, grads = e.gradients / 4 - part;
        cr_expect(gathered >= first + (1 + prefetch) * last + prefetch * 0);
        cr_expect(gathered <= first + (1 + prefetch) * layer + (prefetch ? 0 : last));
        cr_expect(grads >= first + 2 * layer && grads <= first + 3 * layer);
    }
    options.prefetch = 8;
    cr_expect_eq(estimate(model, &options).parameters, 4 * (part + count));
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

Test(estimate, an_optimizer_on_whole_tensors_has_the_state_that_it_binds)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer;
    struct wk_adafactor_options adafactor = {
        .rate = 1e-3, .decay_power = 0.8, .epsilon1 = 1e-30, .epsilon2 = 1e-3, .clip = 1};
    struct error err = {0};
    cr_assert_eq(wk_adafactor_new(&adafactor, &optimizer), 0);
    struct estimate_options options = options_of(optimizer);
    int64_t said = estimate(model, &options).optimizer;
    cr_assert_eq(optimizer_bind(optimizer, model->params, model->n_params, 0, model->count, &err),
                 0);
    size_t scratch = 0;
    for (int i = 0; i < optimizer->n_segments; i++) {
        size_t needed = optimizer->ops->scratch(&optimizer->segments[i]);
        scratch = needed > scratch ? needed : scratch;
    }
    cr_expect_eq(said, (int64_t)((optimizer->own_count - 1 + scratch) * sizeof(float)));
    cr_expect_lt(said, (int64_t)(4 * model->count));
    options.strategy = STRATEGY_FSDP;
    cr_expect_eq(estimate_training(model, &options, &(struct estimate){0}, &err), WK_EUNSUPPORTED);
    cr_expect(strstr(err.text, "adafactor"), "%s", err.text);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

static void expect_refusal(struct wk_model *model, const struct estimate_options *options,
                           const char *word)
{
    struct estimate ret;
    struct error err = {0};
    cr_expect_eq(estimate_training(model, options, &ret, &err), WK_EINVAL);
    cr_expect(strstr(err.text, word), "%s", err.text);
}

Test(estimate, numbers_outside_limits_are_refused_by_name)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options good = options_of(optimizer), bad = good;
    bad.world = 0;
    expect_refusal(model, &bad, "world");
    bad = good;
    bad.world = ESTIMATE_WORLD_MAX + 1;
    expect_refusal(model, &bad, "world");
    bad = good;
    bad.samples = 0;
    expect_refusal(model, &bad, "batch");
    bad = good;
    bad.samples = ESTIMATE_SAMPLES_MAX + 1;
    expect_refusal(model, &bad, "batch");
    bad = good;
    bad.length = CONTEXT + 1;
    expect_refusal(model, &bad, "length");
    bad = good;
    bad.low_gradients = true;
    expect_refusal(model, &bad, "low_gradients");
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

Test(estimate, what_is_offloaded_is_on_the_host)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    int64_t count = (int64_t)wk_model_count(model), vectors = 0;
    for (int i = 0; i < model->n_params; i++)
        vectors += model->params[i].dims > 1 ? 0 : (int64_t)model->params[i].count;
    options.compute = WK_BF16;
    struct estimate without = estimate(model, &options);
    cr_expect_eq(without.on_host + without.over_bus, 0);
    options.masters_on_host = true;
    struct estimate masters = estimate(model, &options);
    int64_t piece = 4 * (int64_t)host_state_piece((size_t)count); /* three slots of it */
    cr_expect_eq(masters.parameters, 4 * (vectors + count));      /* all are renewed in one piece */
    cr_expect_eq(masters.on_host, 4 * count);
    cr_expect_eq(masters.over_bus, 8 * count);
    cr_expect_eq(masters.optimizer, 8 * count + 3 * piece);
    options.state_on_host = true;
    struct estimate both = estimate(model, &options);
    cr_expect_eq(both.on_host, 12 * count);
    cr_expect_eq(both.over_bus, 24 * count);
    cr_expect_eq(both.total, without.total - 12 * count + 4 * (vectors + count) + 9 * piece);
    options.world = 4;
    options.strategy = STRATEGY_FSDP;
    cr_expect_eq(estimate(model, &options).on_host, 12 * ((count + 3) / 4));
    options.compute = WK_F32;
    expect_refusal(model, &options, "offload.masters");
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}

Test(estimate, values_that_wait_on_the_host_are_as_many_bytes_less)
{
    struct wk_model *model = make_gpt();
    struct wk_optimizer *optimizer = make_adam();
    struct estimate_options options = options_of(optimizer);
    options.samples = 16;
    struct estimate without = estimate(model, &options);
    options.values_on_host = true;
    struct estimate with = estimate(model, &options);
    cr_expect(with.values.pieces > 0 && with.values.saved > 0);
    cr_expect_eq(with.activations, without.activations - with.values.saved);
    cr_expect_eq(with.total, without.total - with.values.saved);
    cr_expect_eq(with.on_host, with.values.on_host);
    cr_expect(with.values.on_host >= with.values.saved);
    options.state_on_host = true;
    cr_expect_eq(estimate(model, &options).on_host, with.on_host + without.optimizer);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
}
