/* Weights to HuggingFace's files and back through a context, as a program does it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libworker/pretrained/pretrained.h"
#include "libworker/step/context.h"
#include "tests/lib/reference.h"
#include "tests/lib/safetensors_test.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/nn/fixture.h"

static const struct wk_gpt_config gpt = {2, 2, 16, 24, 40};
static const struct wk_llama_config llama = {.layers = 2,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .width = 16,
                                             .inner = 20,
                                             .context = 24,
                                             .vocab = 40,
                                             .rope_theta = 10000,
                                             .norm_epsilon = 1e-5};
static const struct wk_mlp_config mlp = {1, 3, 4, 8, 24, 40};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

/* A context of one rank under `strategy`, with the model prepared. */
struct run {
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
};

static struct wk_context *open_alone(const char *strategy)
{
    static const struct environment empty = {nothing, NULL};
    struct wk_setting setting = {"strategy", strategy};
    struct wk_context *ctx;
    cr_assert_eq(context_open(&(struct wk_options){.settings = &setting, .n_settings = 1},
                              &(struct context_seams){.environment = &empty, .quiet = true}, &ctx),
                 0);
    return ctx;
}

static void prepare(struct run *run)
{
    struct wk_adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1};
    cr_assert_eq(wk_adamw_new(&adamw, &run->optimizer), 0);
    cr_assert_eq(wk_prepare_all(run->ctx, WK_OBJECT(run->model), WK_OBJECT(run->optimizer)), 0,
                 "%s", wk_last_error(run->ctx));
    cr_assert_eq(wk_gather_parameters(run->model), 0);
}

static void finish(struct run *run)
{
    cr_assert_eq(wk_close(run->ctx), 0);
    wk_optimizer_free(run->optimizer);
    wk_model_free(run->model);
}

static int make(const char *kind, struct wk_model **ret)
{
    struct wk_llama_config tied = llama, qwen = llama;
    tied.tied = true;
    qwen.qk_norm = qwen.qkv_bias = qwen.out_bias = true;
    qwen.head_size = 6;
    qwen.window = 5;
    qwen.window_layer = 1;
    qwen.rope_scaling = (struct wk_rope_scaling){.type = WK_ROPE_YARN,
                                                 .factor = 2.5,
                                                 .original_context = 9,
                                                 .low = 0.5,
                                                 .high = 7.25,
                                                 .amplitude = 1.125,
                                                 .exact = true};
    if (strcmp(kind, "qwen") == 0)
        return wk_llama_new(&qwen, ret);
    if (strcmp(kind, "gpt") == 0)
        return wk_gpt_new(&gpt, ret);
    if (strcmp(kind, "mlp") == 0)
        return wk_mlp_new(&mlp, ret);
    return wk_llama_new(strcmp(kind, "tied") == 0 ? &tied : &llama, ret);
}

static void assert_same(const struct wk_model *a, const struct wk_model *b)
{
    cr_assert_eq(a->n_params, b->n_params);
    for (int i = 0; i < a->n_params; i++) {
        cr_assert_str_eq(a->params[i].name, b->params[i].name);
        cr_assert_eq(a->params[i].count, b->params[i].count);
        cr_assert_arr_eq(a->params[i].data, b->params[i].data, a->params[i].count * sizeof(float));
    }
}

/* Every number comes back. */
static void assert_same_config(const struct wk_model *a, const struct wk_model *b)
{
    struct error err = {0};
    char *texts[2];
    cr_assert_eq(pretrained_config(a, WK_FORMAT_F32, &texts[0], &err), 0);
    cr_assert_eq(pretrained_config(b, WK_FORMAT_F32, &texts[1], &err), 0);
    cr_assert((!texts[0] && !texts[1]) || strcmp(texts[0], texts[1]) == 0, "%s, not %s", texts[1],
              texts[0]);
    free(texts[0]);
    free(texts[1]);
}

static void round_trip(const char *kind, const char *strategy, uint64_t file_bytes)
{
    struct tmpdir dir = tmpdir_make();
    const char *path = tmpdir_path(&dir, "model");
    struct run first = {.ctx = open_alone("ddp")}, second = {.ctx = open_alone(strategy)};
    cr_assert_eq(make(kind, &first.model), 0);
    wk_model_init(first.model, 7);
    prepare(&first);
    cr_assert_eq(wk_model_save(first.ctx, first.model, path,
                               &(struct wk_export_options){WK_FORMAT_F32, file_bytes}),
                 0, "%s", wk_last_notice(first.ctx));
    if (strcmp(kind, "mlp") != 0) {
        cr_assert_eq(wk_model_open(second.ctx, path, &second.model), 0, "%s",
                     wk_last_error(second.ctx));
    } else {
        cr_assert_eq(make(kind, &second.model), 0);
        cr_assert_eq(wk_model_load(second.ctx, second.model, path), 0);
    }
    prepare(&second);
    assert_same(first.model, second.model);
    assert_same_config(first.model, second.model);
    finish(&first);
    finish(&second);
    tmpdir_remove(&dir);
}

Test(pretrained, what_is_written_is_read_bit_for_bit)
{
    static const char *const kinds[] = {"gpt", "llama", "tied", "qwen", "mlp"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        round_trip(kinds[i], "ddp", 0);
        round_trip(kinds[i], "zero1", 3000);
        round_trip(kinds[i], "fsdp", 1);
    }
}

/* A file of ours through a reader that is not ours. */
Test(pretrained, names_and_files_are_those_of_transformers)
{
    struct tmpdir dir = tmpdir_make();
    struct run run = {.ctx = open_alone("fsdp")};
    cr_assert_eq(make("gpt", &run.model), 0);
    wk_model_init(run.model, 3);
    prepare(&run);
    struct wk_export_options small = {WK_FORMAT_F32, 5000};
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "one"), NULL), 0);
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "many/"), &small), 0);
    cr_assert_eq(wk_gather_parameters(run.model), 0);

    struct safetensors_test file;
    cr_assert_eq(safetensors_test_open(tmpdir_path(&dir, "one/model.safetensors"), &file), 0);
    cr_assert_eq(safetensors_test_tensors(&file), (size_t)run.model->n_params);
    for (int i = 0; i < run.model->n_params; i++) {
        const struct param *param = &run.model->params[i];
        char name[160];
        size_t count;
        snprintf(name, sizeof(name), "transformer.%s", param->name);
        const float *data = safetensors_test_tensor(&file, name, &count);
        cr_assert(data && count == param->count, "%s", name);
        cr_assert_arr_eq(data, param->data, count * sizeof(*data));
    }
    safetensors_test_close(&file);
    cr_assert_neq(access(tmpdir_path(&dir, "one/model.safetensors.index.json"), F_OK), 0);
    cr_assert_eq(access(tmpdir_path(&dir, "one/config.json"), F_OK), 0);
    cr_assert_eq(access(tmpdir_path(&dir, "many/model.safetensors.index.json"), F_OK), 0);
    int files = 0, found = 0;
    for (int n = 2; n < 64; n++) {
        char first[64], last[64];
        snprintf(first, sizeof(first), "many/model-00001-of-%05d.safetensors", n);
        snprintf(last, sizeof(last), "many/model-%05d-of-%05d.safetensors", n, n);
        found += access(tmpdir_path(&dir, first), F_OK) == 0;
        files += access(tmpdir_path(&dir, last), F_OK) == 0 ? n : 0;
    }
    cr_assert(found == 1 && files > 4, "%d files", files);
    finish(&run);
    tmpdir_remove(&dir);
}

Test(pretrained, narrow_files_hold_the_rounded_values)
{
    static const enum wk_format formats[] = {WK_FORMAT_F16, WK_FORMAT_BF16};
    for (int f = 0; f < 2; f++) {
        struct tmpdir dir = tmpdir_make();
        const char *path = tmpdir_path(&dir, "model");
        struct run first = {.ctx = open_alone("ddp")}, second = {.ctx = open_alone("ddp")};
        cr_assert_eq(make("llama", &first.model), 0);
        wk_model_init(first.model, 7);
        prepare(&first);
        cr_assert_eq(
            wk_model_save(first.ctx, first.model, path, &(struct wk_export_options){formats[f], 0}),
            0);
        cr_assert_eq(wk_model_open(second.ctx, path, &second.model), 0);
        prepare(&second);
        uint16_t *low = malloc(first.model->count * sizeof(*low));
        cr_assert_eq(wk_narrow(low, formats[f], first.model->param_arena, first.model->count), 0);
        cr_assert_eq(wk_widen(first.model->param_arena, formats[f], low, first.model->count), 0);
        free(low);
        assert_same(first.model, second.model);
        finish(&first);
        finish(&second);
        tmpdir_remove(&dir);
    }
}

/* The reference file has GPT-2's names without a prefix and no config.json. */
Test(pretrained, the_reference_gpt_is_read)
{
    char path[REFERENCE_PATH_MAX];
    struct safetensors_test file;
    cr_assert_eq(safetensors_test_open(reference_path("gpt/gpt_init.safetensors", path), &file), 0);
    size_t table, positions, norm;
    const float *weights = safetensors_test_tensor(&file, "wte.weight", &table);
    cr_assert(weights && safetensors_test_tensor(&file, "wpe.weight", &positions) &&
              safetensors_test_tensor(&file, "ln_f.weight", &norm));
    int width = (int)norm, layers = (int)((safetensors_test_tensors(&file) - 4) / 12);
    struct wk_gpt_config config = {layers, 1, width, (int)positions / width, (int)table / width};
    struct run run = {.ctx = open_alone("zero2")};
    cr_assert_eq(wk_gpt_new(&config, &run.model), 0);
    cr_assert_eq(wk_model_load(run.ctx, run.model, path), 0, "%s", wk_last_error(run.ctx));
    prepare(&run);
    for (int i = 0; i < run.model->n_params; i++) {
        const struct param *param = &run.model->params[i];
        size_t count;
        const float *data = safetensors_test_tensor(&file, param->name, &count);
        cr_assert(data && count == param->count, "%s", param->name);
        cr_assert_arr_eq(param->data, data, count * sizeof(*data));
    }
    finish(&run);
    safetensors_test_close(&file);
}

Test(pretrained, a_folder_with_something_in_it_is_left_alone)
{
    struct tmpdir dir = tmpdir_make();
    struct run run = {.ctx = open_alone("ddp")};
    cr_assert_eq(make("gpt", &run.model), 0);
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "early"), NULL), WK_ESTATE);
    prepare(&run);
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "model"), NULL), 0);
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "model"), NULL), WK_EINVAL);
    cr_assert(strstr(wk_last_notice(run.ctx), "no empty folder"), "%s", wk_last_notice(run.ctx));
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "eight"),
                               &(struct wk_export_options){WK_FORMAT_E4M3, 0}),
                 WK_EINVAL);
    cr_assert_neq(access(tmpdir_path(&dir, "eight"), F_OK), 0);
    cr_assert_eq(wk_model_load(run.ctx, run.model, tmpdir_path(&dir, "model")), WK_ESTATE);
    wk_close(run.ctx);
    wk_optimizer_free(run.optimizer);
    wk_model_free(run.model);
    tmpdir_remove(&dir);
}

/* What a lost peer held was never gathered: zeros are no weights. */
Test(pretrained, nothing_is_written_in_a_broken_generation)
{
    struct tmpdir dir = tmpdir_make();
    struct run run = {.ctx = open_alone("fsdp")};
    cr_assert_eq(make("gpt", &run.model), 0);
    prepare(&run);
    run.ctx->step.phase = STEP_BROKEN;
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "model"), NULL), WK_EPEER);
    cr_assert(strstr(wk_last_notice(run.ctx), "nothing was written"));
    cr_assert_neq(access(tmpdir_path(&dir, "model"), F_OK), 0);
    run.ctx->step.phase = STEP_BOUNDARY;
    cr_assert_eq(wk_model_save(run.ctx, run.model, tmpdir_path(&dir, "model"), NULL), 0);
    finish(&run);
    tmpdir_remove(&dir);
}

Test(pretrained, what_cannot_be_opened_leaves_no_model)
{
    struct tmpdir dir = tmpdir_make();
    struct wk_model *model = NULL;
    struct wk_context *ctx = open_alone("ddp");
    FILE *file = fopen(tmpdir_path(&dir, "config.json"), "w");
    cr_assert_not_null(file);
    fputs("{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
          "\"n_positions\": 4, \"vocab_size\": 6}",
          file);
    fclose(file);
    cr_expect_eq(wk_model_open(ctx, dir.path, &model), WK_ENOTFOUND, "%s", wk_last_error(ctx));
    cr_expect(strstr(wk_last_error(ctx), "neither model.safetensors nor"), "%s",
              wk_last_error(ctx));
    cr_expect_null(model);
    wk_close(ctx);
    tmpdir_remove(&dir);
}
