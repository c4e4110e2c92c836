#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/settings/job_field.h"
#include "libworker/config/remark.h"

struct variables {
    const char *const *pairs; /* name, value, …, NULL */
};

static const char *lookup(void *arg, const char *name)
{
    const struct variables *variables = arg;
    for (const char *const *pair = variables->pairs; *pair; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

static int read_pairs(const char *const *pairs, struct settings *ret, struct error *err)
{
    struct variables variables = {pairs};
    struct environment environment = {lookup, &variables};
    struct settings_input input = {.environment = &environment};
    return settings_read(&input, ret, err);
}

static const char *const nothing[] = {NULL};

Test(settings, every_default_passes_its_own_checks)
{
    struct settings settings;
    cr_assert_eq(read_pairs(nothing, &settings, NULL), 0);
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        cr_assert_eq(settings.values[i].origin, WK_FROM_DEFAULT);
        cr_assert_str_eq(settings.values[i].text, setting_rows[i].fallback);
    }
    cr_assert_eq(settings_integer(&settings, SETTING_ACCUMULATION), 1);
    cr_assert_eq(settings_integer(&settings, SETTING_COMM_TIMEOUT), 30 * 60 * 1000);
    settings_fini(&settings);
}

Test(settings, names_are_unique_and_have_environment_names)
{
    char name[SETTING_ENV_MAX];
    for (int i = 0; i < SETTINGS_COUNT; i++)
        cr_assert_eq(settings_find(setting_rows[i].name), i);
    cr_assert_eq(settings_find("nothing"), -1);
    cr_assert_str_eq(setting_env_name(SETTING_CHECKPOINT_EVERY, name), "MUSTER_CHECKPOINT_EVERY");
    cr_assert_str_eq(setting_env_name(SETTING_MESH_DP, name), "MUSTER_MESH_DP");
}

Test(settings, code_beats_environment_beats_file_beats_default)
{
    static const char yaml[] = "seed: 1\nbucket_mib: 2\nclip_grad_norm: 0.5\n";
    static const char *const pairs[] = {"MUSTER_SEED", "11", "MUSTER_BUCKET_MIB", "12", NULL};
    struct wk_setting code = {"seed", "21"};
    struct variables variables = {pairs};
    struct environment environment = {lookup, &variables};
    struct settings_input input = {
        .code = &code, .n_code = 1, .environment = &environment, .file = "/tmp/settings-test.yaml"};
    FILE *file = fopen(input.file, "w");
    cr_assert_not_null(file);
    fputs(yaml, file);
    fclose(file);
    struct settings settings;
    struct error err = {0};
    cr_assert_eq(settings_read(&input, &settings, &err), 0, "%s", err.text);
    remove(input.file);
    cr_assert_eq(settings_integer(&settings, SETTING_SEED), 21);
    cr_assert_eq(settings.values[SETTING_SEED].origin, WK_FROM_CODE);
    cr_assert_eq(settings_number(&settings, SETTING_BUCKET_MIB), 12);
    cr_assert_eq(settings.values[SETTING_BUCKET_MIB].origin, WK_FROM_ENVIRONMENT);
    cr_assert_str_eq(settings.values[SETTING_BUCKET_MIB].where, "MUSTER_BUCKET_MIB");
    cr_assert_eq(settings_number(&settings, SETTING_CLIP_GRAD_NORM), 0.5);
    cr_assert_eq(settings.values[SETTING_CLIP_GRAD_NORM].origin, WK_FROM_FILE);
    cr_assert_str_eq(settings.values[SETTING_CLIP_GRAD_NORM].where, "/tmp/settings-test.yaml:3");
    cr_assert_eq(settings.values[SETTING_LOG_EVERY].origin, WK_FROM_DEFAULT);
    settings_fini(&settings);
}

Test(settings, what_the_job_said_is_told_from_what_the_machine_says)
{
    static const char *const pairs[] = {"MUSTER_SEED",
                                        "11",
                                        "MUSTER_DDP_HOOK",
                                        "fp16",
                                        "MUSTER_JOB_SETTINGS",
                                        "MUSTER_STRATEGY MUSTER_DDP_HOOK",
                                        NULL};
    struct wk_setting code = {"ddp.hook", "bf16"};
    struct variables variables = {pairs};
    struct environment environment = {lookup, &variables};
    struct settings_input input = {.environment = &environment};
    struct settings settings;
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    cr_expect_eq(settings.values[SETTING_SEED].origin, WK_FROM_ENVIRONMENT);
    cr_expect_eq(settings.values[SETTING_DDP_HOOK].origin, WK_FROM_JOB);
    cr_expect_str_eq(settings.values[SETTING_DDP_HOOK].where, "MUSTER_DDP_HOOK");
    cr_expect_str_eq(setting_origin_name(WK_FROM_JOB), "job");
    settings_fini(&settings);
    input.code = &code, input.n_code = 1;
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    cr_expect_eq(settings.values[SETTING_DDP_HOOK].origin, WK_FROM_CODE, "the program is stronger");
    settings_fini(&settings);
}

struct remarks {
    char text[4][320];
    int count;
};

static void take_remark(void *arg, const char *text)
{
    struct remarks *remarks = arg;
    cr_assert_lt(remarks->count, 4);
    (void)snprintf(remarks->text[remarks->count++], sizeof(remarks->text[0]), "%s", text);
}

static const char *const *list_variables(void *arg)
{
    static const char *const entries[] = {"MUSTER_STRATGEY=fsdp", "MUSTER_SEED=3",
                                          "MUSTER_QUITE_ANOTHER=1", "PATH=/bin", NULL};
    (void)arg;
    return entries;
}

Test(settings, what_the_program_overrules_is_remarked)
{
    static const char *const pairs[] = {"MUSTER_TOTAL_STEPS", "8", "MUSTER_SEED", "3", NULL};
    struct wk_setting code[] = {{"total_steps", "300"}, {"seed", "3"}, {"log_every", "5"}};
    struct variables variables = {pairs};
    struct environment environment = {lookup, &variables};
    struct settings_input input = {.code = code, .n_code = 3, .environment = &environment};
    struct settings settings;
    struct remarks remarks = {.count = 0};
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    settings_remark(&settings, &environment, take_remark, &remarks);
    cr_assert_eq(remarks.count, 1, "not where both say the same, nor where only one does");
    cr_expect_str_eq(remarks.text[0], "total_steps is 300 in the program's code, which counts; "
                                      "MUSTER_TOTAL_STEPS=8 does not");
    settings_fini(&settings);
}

Test(settings, what_counts_for_nothing_is_remarked)
{
    static const char *const pairs[] = {"MUSTER_FSDP_PREFETCH",
                                        "2",
                                        "MUSTER_DDP_HOOK",
                                        "none",
                                        "MUSTER_CHECKPOINT_EVERY",
                                        "200 steps",
                                        NULL};
    struct variables variables = {pairs};
    struct environment environment = {lookup, &variables, list_variables};
    struct settings_input input = {.environment = &environment};
    struct settings settings;
    struct remarks remarks = {.count = 0};
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    settings_remark(&settings, &environment, take_remark, &remarks);
    cr_assert_eq(remarks.count, 3);
    cr_expect_str_eq(remarks.text[0],
                     "fsdp.prefetch counts only with strategy=fsdp, and it is ddp: "
                     "set that, or leave fsdp.prefetch out (environment, "
                     "MUSTER_FSDP_PREFETCH)");
    cr_expect(strstr(remarks.text[1], "checkpoint.every counts only with a checkpoint.dir"));
    cr_expect(strstr(remarks.text[2], "did you mean MUSTER_STRATEGY?"));
    settings_fini(&settings);

    /* What is said as the default has it, however it is spelled, and a folder to begin from. */
    static const char *const fine[] = {"MUSTER_FSDP_RESHARD_AFTER_FORWARD",
                                       "on",
                                       "MUSTER_LOSS_SCALE_GROWTH",
                                       "2.0",
                                       "MUSTER_RESUME_FROM",
                                       "/c/step-00000100",
                                       NULL};
    variables.pairs = fine;
    environment.all = NULL;
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    remarks.count = 0;
    settings_remark(&settings, &environment, take_remark, &remarks);
    cr_expect_eq(remarks.count, 0, "%s", remarks.text[0]);
    settings_fini(&settings);

    /* What contradicts is no remark: settings_agree refuses it. */
    static const char *const both[] = {"MUSTER_LOW_GRADIENTS", "true", "MUSTER_RESUME_FROM",
                                       "latest", NULL};
    variables.pairs = both;
    cr_assert_eq(settings_read(&input, &settings, NULL), 0);
    remarks.count = 0;
    settings_remark(&settings, &environment, take_remark, &remarks);
    cr_assert_eq(remarks.count, 1, "what contradicts is an error instead");
    cr_expect(strstr(remarks.text[0], "resume_from counts only with a checkpoint.dir"));
    struct error err = {0};
    cr_expect_eq(settings_agree(&settings, &err), WK_EINVAL);
    cr_expect(strstr(err.text, "low_gradients true contradicts strategy ddp"), "%s", err.text);
    settings_fini(&settings);
    cr_assert_eq(read_pairs(nothing, &settings, NULL), 0);
    remarks.count = 0;
    settings_remark(&settings, &environment, take_remark, &remarks);
    cr_expect_eq(remarks.count, 0);
    settings_fini(&settings);
}

static const char *next_step(const char *name)
{
    static struct error err;
    err = (struct error){0};
    settings_meant(&err, name);
    return err.hint;
}

Test(settings, a_name_that_no_setting_has_leads_to_the_one_that_was_meant)
{
    cr_expect_str_eq(next_step("straetgy"), "did you mean strategy?");
    cr_expect_str_eq(next_step("powersgd_rank"), "did you mean ddp.powersgd_rank?");
    cr_expect_str_eq(next_step("training.total_steps"), "did you mean total_steps?");
    cr_expect_str_eq(next_step("training.mesh.dpp"), "did you mean mesh.dp?");
    cr_expect_str_eq(next_step("mesh"), "its settings are mesh.dp, mesh.dp_replicate, "
                                        "mesh.dp_shard, mesh.cp, mesh.tp, mesh.pp");
    cr_expect_str_eq(next_step("training.loss_scale"),
                     "its settings are loss_scale.initial, loss_scale.growth, loss_scale.backoff, "
                     "loss_scale.interval");
    cr_expect_str_eq(next_step("nothing_like_it"), "`muster env` lists them all");
}

static int read_yaml(const char *text, struct settings *settings, struct error *err)
{
    cr_assert_eq(read_pairs(nothing, settings, err), 0);
    *err = (struct error){0};
    return settings_read_yaml(settings, "run.yaml", text, strlen(text), err);
}

Test(settings, sections_and_job_specs_are_read)
{
    struct settings settings;
    struct error err = {0};
    cr_assert_eq(read_yaml("name: gpt\ncommand: [a, b]\nnodes: {min: 1, max: 2}\n"
                           "checkpoint: {dir: /c, every: 200 steps, keep: 5}\n"
                           "training:\n  strategy: ddp\n  mesh: {dp: 2}\n",
                           &settings, &err),
                 0, "%s", err.text);
    cr_assert_str_eq(settings_text(&settings, SETTING_CHECKPOINT_DIR), "/c");
    cr_assert_eq(settings_integer(&settings, SETTING_CHECKPOINT_EVERY), 200);
    cr_assert_eq(settings_integer(&settings, SETTING_MESH_DP), 2);
    settings_fini(&settings);
    cr_assert_eq(
        read_yaml(
            "checkpoint: /short\ntraining: {settings: {ddp.hook: fp16}, checkpoint: {every: 7}}\n",
            &settings, &err),
        0, "%s", err.text);
    cr_assert_str_eq(settings_text(&settings, SETTING_CHECKPOINT_DIR), "/short");
    cr_assert_str_eq(settings_text(&settings, SETTING_DDP_HOOK), "fp16");
    cr_assert_eq(settings_integer(&settings, SETTING_CHECKPOINT_EVERY), 7);
    settings_fini(&settings);
}

Test(settings, every_key_of_a_job_may_stand_in_a_config_file)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const struct job_field *row = &job_fields[i];
        struct settings settings;
        struct error err = {0};
        char text[128];
        const char *dot = strchr(row->key, '.'), *value = "1";
        if (strcmp(row->key, "checkpoint.dir") == 0) /* it is a setting, too */
            value = "/c";
        else if (row->shape == SHAPE_SETTINGS)
            value = "{}";
        if (dot)
            (void)snprintf(text, sizeof(text), "%.*s: {%s: %s}\n", (int)(dot - row->key), row->key,
                           dot + 1, value);
        else
            (void)snprintf(text, sizeof(text), "%s: %s\n", row->key, value);
        cr_expect_eq(read_yaml(text, &settings, &err), 0, "%s: %s", row->key, err.text);
        settings_fini(&settings);
    }
}

Test(settings, unknown_keys_are_refused_with_line_and_nearest_name)
{
    struct settings settings;
    struct error err;
    cr_assert_eq(read_yaml("seed: 1\nbucket_mb: 3\n", &settings, &err), WK_EINVAL);
    cr_assert(strstr(err.text, "line 2") || strstr(err.text, ":2"), "%s", err.text);
    cr_assert(strstr(err.hint, "bucket_mib"), "%s", err.hint);
    settings_fini(&settings);
    cr_assert_eq(read_yaml("checkpoint:\n  evry: 10m\n", &settings, &err), WK_EINVAL);
    cr_assert(strstr(err.text, "checkpoint.evry"), "%s", err.text);
    cr_assert(strstr(err.hint, "checkpoint.every"), "%s", err.hint);
    settings_fini(&settings);
    cr_assert_eq(read_yaml("training:\n  nodes: 3\n", &settings, &err), WK_EINVAL);
    settings_fini(&settings);
}

Test(settings, values_that_do_not_fit_are_refused_with_their_source)
{
    static const char *const bad[][3] = {
        {"MUSTER_SEED", "x", NULL},
        {"MUSTER_SEED", "-1", NULL},
        {"MUSTER_STRATEGY", "dpp", NULL},
        {"MUSTER_GRADIENT_ACCUMULATION_STEPS", "0", NULL},
        {"MUSTER_GRADIENT_ACCUMULATION_STEPS", "2.5", NULL},
        {"MUSTER_BUCKET_MIB", "nan", NULL},
        {"MUSTER_BUCKET_MIB", "-3", NULL},
        {"MUSTER_CHECKPOINT_EVERY", "200", NULL},
        {"MUSTER_CHECKPOINT_EVERY", "0 steps", NULL},
        {"MUSTER_CHECKPOINT_EVERY", "3 stops", NULL},
        {"MUSTER_COMM_TIMEOUT", "1ms", NULL},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct settings settings;
        struct error err = {0};
        cr_assert_eq(read_pairs(bad[i], &settings, &err), WK_EINVAL, "%s=%s", bad[i][0], bad[i][1]);
        cr_assert_eq(err.code, WK_EINVAL, "%s=%s: %d", bad[i][0], bad[i][1], err.code);
        cr_assert(strstr(err.text, bad[i][0]), "%s", err.text);
    }
}

Test(settings, intervals_are_steps_or_times)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"200 steps", 200}, {"1 step", 1}, {"10m", -600000}, {"90s", -90000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const pairs[] = {"MUSTER_CHECKPOINT_EVERY", cases[i].text, NULL};
        struct settings settings;
        cr_assert_eq(read_pairs(pairs, &settings, NULL), 0, "%s", cases[i].text);
        cr_assert_eq(settings_integer(&settings, SETTING_CHECKPOINT_EVERY), cases[i].value);
        settings_fini(&settings);
    }
}

Test(settings, printing_shows_value_and_origin)
{
    static const char *const pairs[] = {"MUSTER_SEED", "7", NULL};
    struct settings settings;
    char *text = NULL;
    size_t size;
    cr_assert_eq(read_pairs(pairs, &settings, NULL), 0);
    FILE *out = open_memstream(&text, &size);
    cr_assert_eq(settings_print(&settings, out), 0);
    fclose(out);
    const char *line = strstr(text, "\nseed ");
    cr_assert_not_null(line);
    cr_assert(strstr(line, "# environment: MUSTER_SEED"));
    cr_assert(strstr(text, "# default"));
    free(text);
    settings_fini(&settings);
}

Test(settings, a_missing_file_is_named)
{
    static const char *const pairs[] = {"MUSTER_CONFIG", "/nonexistent/run.yaml", NULL};
    struct settings settings;
    struct error err = {0};
    cr_assert_eq(read_pairs(pairs, &settings, &err), WK_ENOTFOUND);
    cr_assert(strstr(err.text, "/nonexistent/run.yaml"));
}
