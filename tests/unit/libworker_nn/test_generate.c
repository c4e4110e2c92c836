#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "tests/lib/rounding.h"

enum { VOCAB = 12, CONTEXT = 6, COUNT = 20 };
enum { FORWARD = 10 * 8 + 2 * CONTEXT + 2 * 8 }; /* roundings: products of width 8, softmax, head */

static struct wk_model *gpt(float **ret_params)
{
    static const struct wk_gpt_config config = {1, 2, 8, CONTEXT, VOCAB};
    struct wk_model *model;
    cr_assert_eq(wk_gpt_new(&config, &model), 0);
    *ret_params = calloc(model->count, sizeof(float));
    cr_assert_eq(model_bind(model, *ret_params, NULL), 0);
    wk_model_init(model, 4);
    for (size_t i = 0; i < model->count; i++)
        (*ret_params)[i] *= 20; /* so that some tokens are clearly likelier */
    return model;
}

static const int32_t prompt[3] = {3, 1, 4};

static void generate(struct wk_model *model, double temperature, int top_k, uint64_t seed,
                     int32_t ret_tokens[COUNT])
{
    struct wk_generate_options o = {prompt, 3, temperature, top_k, seed};
    cr_assert_eq(wk_generate(model, &o, COUNT, ret_tokens), 0);
    for (int i = 0; i < COUNT; i++)
        cr_expect(ret_tokens[i] >= 0 && ret_tokens[i] < VOCAB);
}

/* Greedy text is the argmax of the logits over the last CONTEXT tokens, step by step. */
Test(generate, greedy_takes_the_likeliest_token)
{
    float *params, logits[VOCAB];
    struct wk_model *model = gpt(&params);
    int32_t text[3 + COUNT] = {3, 1, 4};
    generate(model, 0, 0, 1, text + 3);
    for (int at = 3; at < 3 + COUNT; at++) {
        int seen = at < CONTEXT ? at : CONTEXT, best = 0;
        struct wk_batch batch = {.tokens = text + at - seen, .samples = 1, .length = seen};
        cr_assert_eq(model_logits(model, &batch, logits, NULL), 0);
        for (int i = 1; i < VOCAB; i++)
            best = logits[i] > logits[best] ? i : best;
        cr_expect_eq(text[at], best, "at %d", at);
    }
    wk_model_free(model);
    free(params);
}

Test(generate, one_candidate_is_greedy)
{
    float *params;
    struct wk_model *model = gpt(&params);
    int32_t greedy[COUNT], single[COUNT];
    generate(model, 0, 0, 1, greedy);
    generate(model, 5, 1, 2, single);
    cr_expect_eq(memcmp(greedy, single, sizeof(greedy)), 0);
    wk_model_free(model);
    free(params);
}

/* Each token is one of the three likeliest after the text before it, and not always the first. */
Test(generate, chooses_among_k_candidates)
{
    float *params, logits[VOCAB];
    struct wk_model *model = gpt(&params);
    int32_t text[3 + COUNT] = {3, 1, 4};
    int firsts = 0;
    generate(model, 1000, 3, 5, text + 3);
    for (int at = 3; at < 3 + COUNT; at++) {
        int seen = at < CONTEXT ? at : CONTEXT, likelier = 0;
        struct wk_batch batch = {.tokens = text + at - seen, .samples = 1, .length = seen};
        cr_assert_eq(model_logits(model, &batch, logits, NULL), 0);
        for (int i = 0; i < VOCAB; i++)
            likelier += logits[i] > logits[text[at]];
        cr_expect_lt(likelier, 3, "at %d", at);
        firsts += likelier == 0;
    }
    cr_expect_lt(firsts, COUNT);
    wk_model_free(model);
    free(params);
}

Test(generate, a_seed_repeats_its_text)
{
    float *params;
    struct wk_model *model = gpt(&params);
    int32_t a[COUNT], b[COUNT], other[COUNT];
    generate(model, 40, 0, 7, a);
    generate(model, 40, 0, 7, b);
    generate(model, 40, 0, 8, other);
    cr_expect_eq(memcmp(a, b, sizeof(a)), 0);
    cr_expect_neq(memcmp(a, other, sizeof(a)), 0);
    wk_model_free(model);
    free(params);
}

/* Of several samples at once each gets the logits it gets alone. */
Test(generate, logits_are_those_of_the_last_position_of_each_sample)
{
    static const int32_t tokens[8] = {1, 2, 3, 4, 9, 8, 7, 6};
    float *params, both[2 * VOCAB], alone[VOCAB];
    struct wk_model *model = gpt(&params);
    struct wk_batch batch = {.tokens = tokens, .samples = 2, .length = 4};
    cr_assert_eq(model_logits(model, &batch, both, NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct wk_batch one = {.tokens = tokens + 4 * i, .samples = 1, .length = 4};
        cr_assert_eq(model_logits(model, &one, alone, NULL), 0);
        double most = 0;
        for (int j = 0; j < VOCAB; j++)
            most = fmax(most, fabs((double)alone[j]));
        for (int j = 0; j < VOCAB; j++)
            cr_expect_float_eq(both[i * VOCAB + j], alone[j], rounding_bound(FORWARD) * most);
    }
    wk_model_free(model);
    free(params);
}

Test(generate, works_without_a_prompt_and_refuses_nonsense)
{
    float *params;
    struct wk_model *model = gpt(&params);
    int32_t out[2], strange = VOCAB;
    struct wk_generate_options o = {.temperature = 1};
    cr_expect_eq(wk_generate(model, &o, 2, out), 0);
    cr_expect_eq(wk_generate(model, &o, -1, out), WK_EINVAL);
    o.temperature = -1;
    cr_expect_eq(wk_generate(model, &o, 1, out), WK_EINVAL);
    o = (struct wk_generate_options){.prompt = &strange, .prompt_length = 1};
    cr_expect_eq(wk_generate(model, &o, 1, out), WK_EINVAL);
    wk_model_free(model);
    free(params);
}
