#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "tests/lib/rounding.h"

enum { TOKENS = 8 };

static const struct wk_gpt_config config = {2, 2, 16, TOKENS, 20};

struct watched {
    struct wk_model *model;
    float *params, *grads, *seen; /* seen: each gradient as it was when announced */
    int order[64], n;
};

static void watched_init(struct watched *w)
{
    *w = (struct watched){0};
    cr_assert_eq(wk_gpt_new(&config, &w->model), 0);
    w->params = calloc(w->model->count, sizeof(float));
    w->grads = calloc(w->model->count, sizeof(float));
    w->seen = calloc(w->model->count, sizeof(float));
}

static void watched_fini(struct watched *w)
{
    wk_model_free(w->model);
    free(w->params);
    free(w->grads);
    free(w->seen);
}

static void announced(void *arg, int index)
{
    struct watched *w = arg;
    const struct param *param = &w->model->params[index];
    w->order[w->n++] = index;
    memcpy(w->seen + param->offset, param->grad, param->count * sizeof(float));
}

static const int32_t tokens[16] = {1, 2, 3, 4, 5, 6, 7, 8, 19, 18, 17, 16, 15, 14, 13, 12};
static const struct wk_batch batch = {
    .tokens = tokens, .targets = tokens + 1, .samples = 1, .length = 8};

static void start(struct watched *w)
{
    cr_assert_eq(model_bind(w->model, w->params, w->grads), 0);
    wk_model_init(w->model, 1);
    w->model->grad_ready = announced;
    w->model->grad_ready_arg = w;
}

Test(model, table_is_gpt2s)
{
    struct watched w;
    watched_init(&w);
    static const struct {
        const char *name;
        int64_t rows, cols;
        int block;
    } expected[] = {
        {"wte.weight", 20, 16, 0},
        {"wpe.weight", 8, 16, 0},
        {"h.0.ln_1.weight", 16, 0, 1},
        {"h.0.attn.c_attn.weight", 16, 48, 1},
        {"h.1.attn.c_proj.weight", 16, 16, 2},
        {"h.1.mlp.c_fc.weight", 16, 64, 2},
        {"h.1.mlp.c_proj.weight", 64, 16, 2},
        {"h.1.mlp.c_proj.bias", 16, 0, 2},
        {"ln_f.bias", 16, 0, 3},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        const struct param *param = model_param(w.model, expected[i].name);
        cr_assert_not_null(param, "%s", expected[i].name);
        cr_expect_eq(param->shape[0], expected[i].rows);
        cr_expect_eq(param->shape[1], expected[i].cols);
        cr_expect_eq(param->block, expected[i].block);
        cr_expect_eq(param->decay, expected[i].cols != 0);
    }
    cr_expect_null(model_param(w.model, "lm_head.weight"));
    cr_expect_eq(w.model->n_blocks, 4);
    cr_expect_eq(wk_model_parameters(w.model), 2 + 2 * 12 + 2);
    watched_fini(&w);
}

Test(model, parameters_fill_the_arena_without_gaps)
{
    struct watched w;
    watched_init(&w);
    size_t end = 0;
    for (int i = 0; i < w.model->n_params; i++) {
        cr_expect_eq(w.model->params[i].offset, end);
        end += w.model->params[i].count;
    }
    cr_expect_eq(end, wk_model_count(w.model));
    watched_fini(&w);
}

Test(model, announces_each_gradient_once_and_final)
{
    struct watched w;
    double loss;
    watched_init(&w);
    start(&w);
    cr_assert_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(w.model, 1, NULL), 0);
    cr_assert_eq(w.n, w.model->n_params);
    bool met[64] = {0};
    for (int i = 0; i < w.n; i++) {
        cr_expect_not(met[w.order[i]]);
        met[w.order[i]] = true;
    }
    cr_expect_eq(memcmp(w.seen, w.grads, w.model->count * sizeof(float)), 0);
    cr_expect_str_eq(w.model->params[w.order[0]].name, "ln_f.bias");
    cr_expect_str_eq(w.model->params[w.order[w.n - 1]].name, "wte.weight");
    for (int i = 1; i < w.n; i++)
        cr_expect_leq(w.model->params[w.order[i]].block, w.model->params[w.order[i - 1]].block);
    watched_fini(&w);
}

Test(model, an_empty_share_still_announces_everything)
{
    struct watched w;
    double loss = 5;
    struct wk_batch empty = {.samples = 0, .length = 8, .denominator = 100};
    watched_init(&w);
    start(&w);
    w.grads[3] = 1;
    cr_assert_eq(model_forward(w.model, &empty, &loss, NULL), 0);
    cr_expect_eq(loss, 0);
    cr_assert_eq(model_backward(w.model, 1, NULL), 0);
    cr_expect_eq(w.n, w.model->n_params);
    cr_expect_eq(w.grads[3], 1);
    cr_expect_eq(w.grads[4], 0);
    watched_fini(&w);
}

Test(model, gradients_add_up_until_zeroed)
{
    struct watched w;
    double loss;
    watched_init(&w);
    start(&w);
    cr_assert_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(w.model, 1, NULL), 0);
    float *once = malloc(w.model->count * sizeof(float));
    memcpy(once, w.grads, w.model->count * sizeof(float));
    w.n = 0;
    cr_assert_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_assert_eq(model_backward(w.model, 1, NULL), 0);
    double most = 0;
    for (size_t i = 0; i < w.model->count; i++)
        most = fmax(most, fabs((double)once[i]));
    /* The same numbers come again; what they are added to rounds their last sum otherwise. */
    for (size_t i = 0; i < w.model->count; i++)
        cr_expect_float_eq(w.grads[i], 2 * once[i], rounding_bound(TOKENS) * most);
    model_zero_grad(w.model);
    for (size_t i = 0; i < w.model->count; i++)
        cr_assert_eq(w.grads[i], 0);
    free(once);
    watched_fini(&w);
}

/* The initial model knows nothing: its loss is nearly that of guessing among the vocabulary. */
Test(model, initial_loss_is_a_guess)
{
    struct watched w;
    double loss, half;
    watched_init(&w);
    start(&w);
    cr_assert_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_expect_float_eq(loss, 2.9957, 0.1, "%g", loss); /* ln 20 */
    struct wk_batch weighted = batch;
    weighted.denominator = 16;
    cr_assert_eq(model_forward(w.model, &weighted, &half, NULL), 0);
    cr_expect_float_eq(half, loss / 2, rounding_apart(ROUNDING_F64, TOKENS) * loss);
    watched_fini(&w);
}

static void expect_refused(struct watched *w, struct wk_batch wrong, const char *word)
{
    struct error err = {0};
    double loss = 7;
    cr_expect_eq(model_forward(w->model, &wrong, &loss, &err), WK_EINVAL);
    cr_expect_eq(loss, 7);
    cr_expect_not_null(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
}

Test(model, refuses_batches_it_cannot_take)
{
    static const int32_t strange[8] = {1, 2, 20, 4}, negative[8] = {0, -1};
    struct watched w;
    watched_init(&w);
    start(&w);
    struct wk_batch wrong = batch;
    wrong.length = 9;
    expect_refused(&w, wrong, "context");
    wrong.length = 0;
    expect_refused(&w, wrong, "context");
    wrong = batch;
    wrong.samples = -1;
    expect_refused(&w, wrong, "-1 samples");
    wrong = batch;
    wrong.tokens = strange;
    expect_refused(&w, wrong, "input tokens: 20 ");
    wrong = batch;
    wrong.targets = negative;
    expect_refused(&w, wrong, "input targets: -1 ");
    wrong = batch;
    wrong.targets = NULL;
    expect_refused(&w, wrong, "targets");
    wrong = batch;
    wrong.denominator = -1;
    expect_refused(&w, wrong, "denominator");
    watched_fini(&w);
}

Test(model, refuses_calls_out_of_order)
{
    struct watched w;
    double loss;
    watched_init(&w);
    cr_expect_eq(model_forward(w.model, &batch, &loss, NULL), WK_ESTATE);
    cr_assert_eq(model_bind(w.model, w.params, NULL), 0);
    cr_expect_eq(model_backward(w.model, 1, NULL), WK_ESTATE);
    cr_expect_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_expect_eq(model_backward(w.model, 1, NULL), WK_ESTATE); /* no gradients bound */
    start(&w);
    cr_expect_eq(model_forward(w.model, &batch, &loss, NULL), 0);
    cr_expect_eq(model_backward(w.model, 1, NULL), 0);
    cr_expect_eq(model_backward(w.model, 1, NULL), WK_ESTATE);
    cr_expect_eq(model_bind(w.model, NULL, NULL), WK_EINVAL);
    watched_fini(&w);
}

Test(model, refuses_shapes_that_make_no_sense)
{
    static const struct wk_gpt_config wrong[] = {
        {0, 2, 16, 8, 20}, {2, 3, 16, 8, 20}, {2, 0, 16, 8, 20},
        {2, 2, 0, 8, 20},  {2, 2, 16, 0, 20}, {2, 2, 16, 8, 0},
    };
    struct wk_model *model = NULL;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        cr_expect_eq(wk_gpt_new(&wrong[i], &model), WK_EINVAL);
    cr_expect_null(model);
    wk_model_free(NULL);
}
