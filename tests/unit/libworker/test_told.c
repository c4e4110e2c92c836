/* What a program is told without asking, and what it can ask about its last step. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/known_cpu.h"
#include "tests/lib/rounding.h"
#include "tests/lib/tmpdir.h"
#include "tests/unit/libworker/small.h"

TestSuite(told, .init = known_cpu);

static struct wk_batch batch;

/* A clock of which each look takes a third of a millisecond, for those who count by nanoseconds. */
static int64_t fast_ns;

int64_t __real_context_now_ns(void);
int64_t __wrap_context_now_ns(void);
int64_t __wrap_context_now_ns(void)
{
    return fast_ns ? (fast_ns += 333333) : __real_context_now_ns();
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void prepare_with(struct small *s, const char *const *settings,
                         const struct wk_loader_options *change)
{
    small_open(s, settings);
    struct wk_loader_options options = *change;
    options.source = s->source;
    options.length = 8;
    wk_loader_free(s->loader);
    cr_assert_eq(wk_loader_new(s->ctx, &options, &s->loader), 0);
    cr_assert_eq(small_prepare(s), 0, "%s", wk_last_error(s->ctx));
}

Test(told, that_training_never_ends_by_itself)
{
    static const char *const steps[] = {"total_steps=9", NULL};
    const struct {
        const char *const *settings;
        struct wk_loader_options loader;
        bool told;
    } rows[] = {{NULL, {.batch = 2}, true},
                {steps, {.batch = 2}, false},
                {NULL, {.batch = 2, .epochs = 1}, false},
                {NULL, {.batch = 2, .batches = 3}, false},
                {NULL, {.batch = 2, .epochs = 1, .evaluation = true}, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct small s;
        prepare_with(&s, rows[i].settings, &rows[i].loader);
        const char *notice = wk_last_notice(s.ctx);
        cr_expect_eq(strstr(notice, "never ends by itself") != NULL, rows[i].told, "%zu: %s", i,
                     notice);
        small_close(&s);
    }
}

Test(told, that_a_batch_is_larger_than_an_epoch)
{
    const struct wk_loader_options larger = {.batch = 50, .epochs = 2},
                                   whole = {.batch = 49, .epochs = 2},
                                   held_out = {.batch = 50, .epochs = 1, .evaluation = true};
    struct small s;
    prepare_with(&s, NULL, &larger);
    cr_expect(strstr(wk_last_notice(s.ctx), "a batch of 50 samples is more than its source has, "
                                            "so every batch is an epoch of 49"),
              "%s", wk_last_notice(s.ctx));
    small_close(&s);
    prepare_with(&s, NULL, &whole);
    cr_expect_str_empty(wk_last_notice(s.ctx));
    small_close(&s);
    prepare_with(&s, NULL, &held_out);
    cr_expect_str_empty(wk_last_notice(s.ctx));
    small_close(&s);
}

Test(told, why_there_was_nothing_to_prepare)
{
    struct small s;
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {.layers = 2, .heads = 3, .width = 32, .context = 8, .vocab = 16};
    small_open(&s, NULL);
    wk_gpt_new(&gpt, &model);
    cr_expect_eq(wk_prepare_all(s.ctx, WK_OBJECT(model), WK_OBJECT(s.optimizer)), WK_EINVAL);
    cr_expect(strstr(wk_last_error(s.ctx), "3 heads do not divide a width of 32"), "%s",
              wk_last_error(s.ctx));
    small_close(&s);
}

static void custom_step(struct small *s, struct wk_model *model, bool sets_a_loss)
{
    cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
    if (sets_a_loss)
        wk_set_loss(model, 0.5);
    wk_parameter_grad(model, 0)[0] = 1;
    wk_backward(model);
    cr_assert_eq(wk_step(s->optimizer), 0);
}

/* A model of the program's own with one buffer `w`, prepared with AdamW whose decay is 0.5; its
 * last notice. */
static const char *prepared_with(struct small *s, const struct wk_buffer *buffer,
                                 const struct wk_group *group, const char *const *settings)
{
    struct wk_adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.5};
    struct wk_model *model;
    small_open(s, settings);
    wk_scheduler_free(s->scheduler);
    s->scheduler = NULL;
    wk_optimizer_free(s->optimizer);
    cr_assert_eq(wk_adamw_new(&adamw, &s->optimizer), 0);
    if (group)
        cr_assert_eq(wk_optimizer_group(s->optimizer, group), 0);
    cr_assert_eq(wk_custom_new(buffer, 1, &model), 0);
    cr_assert_eq(wk_prepare_all(s->ctx, WK_OBJECT(model), WK_OBJECT(s->optimizer)), 0, "%s",
                 wk_last_error(s->ctx));
    wk_model_free(s->model);
    s->model = model;
    return wk_last_notice(s->ctx);
}

Test(told, that_weight_decay_touches_no_parameter)
{
    static const struct wk_group decays = {"w", 1, 0.1}, frozen = {"w", 0, 0.1},
                                 other = {"v", 1, 1};
    static const struct {
        struct wk_buffer buffer;
        const struct wk_group *group;
        bool told;
    } rows[] = {
        {{.name = "w", .dims = 1, .shape = {4}}, NULL, true},
        {{.name = "w", .dims = 1, .shape = {4}, .decay = true}, NULL, false},
        {{.name = "w", .dims = 2, .shape = {2, 2}}, NULL, false},
        {{.name = "w", .dims = 2, .shape = {2, 2}, .no_decay = true}, NULL, true},
        {{.name = "w", .dims = 1, .shape = {4}}, &decays, false},
        {{.name = "w", .dims = 1, .shape = {4}}, &frozen, true},
        {{.name = "w", .dims = 1, .shape = {4}}, &other, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct small s;
        const char *notice = prepared_with(&s, &rows[i].buffer, rows[i].group, NULL);
        bool told = strstr(notice, "weight_decay 0.5 touches no parameter of model 1") != NULL;
        cr_expect_eq(told, rows[i].told, "%zu: %s", i, notice);
        small_close(&s);
    }
}

Test(told, that_mixed_precision_rounds_no_parameter)
{
    static const char *const settings[] = {"mixed_precision=bf16", NULL};
    static const struct {
        struct wk_buffer buffer;
        bool told;
    } rows[] = {
        {{.name = "w", .dims = 1, .shape = {4}, .decay = true}, true},
        {{.name = "w", .dims = 1, .shape = {4}, .decay = true, .narrow = WK_TAKES_BF16}, false},
        {{.name = "w", .dims = 2, .shape = {2, 2}}, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct small s;
        const char *notice = prepared_with(&s, &rows[i].buffer, NULL, settings);
        bool told = strstr(notice, "mixed_precision bf16 rounds no parameter of model 1") != NULL;
        cr_expect_eq(told, rows[i].told, "%zu: %s", i, notice);
        small_close(&s);
        cr_expect(!strstr(prepared_with(&s, &rows[i].buffer, NULL, NULL), "mixed_precision"));
        small_close(&s);
    }
}

/* AdamW takes rate times decay off what decays, whatever its gradient is. */
Test(told, buffers_decay_by_the_rule_of_our_models)
{
    static const float ones[4] = {1, 1, 1, 1};
    static const struct {
        struct wk_buffer buffer;
        bool decays;
    } rows[] = {
        {{.name = "w", .dims = 2, .shape = {2, 2}, .initial = ones}, true},
        {{.name = "w", .dims = 4, .shape = {2, 1, 1, 2}, .initial = ones}, true},
        {{.name = "w", .dims = 2, .shape = {2, 2}, .initial = ones, .decay = true}, true},
        {{.name = "w", .dims = 2, .shape = {2, 2}, .initial = ones, .no_decay = true}, false},
        {{.name = "w", .dims = 1, .shape = {4}, .initial = ones}, false},
        {{.name = "w", .dims = 1, .shape = {4}, .initial = ones, .decay = true}, true},
    };
    struct wk_buffer both = {.name = "w", .dims = 1, .shape = {4}, .decay = true, .no_decay = true};
    struct wk_model *model = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct small s;
        (void)prepared_with(&s, &rows[i].buffer, NULL, NULL);
        cr_assert(wk_join(s.ctx, 1));
        wk_set_loss(s.model, 0);
        wk_backward(s.model);
        cr_assert_eq(wk_step(s.optimizer), 0, "%s", wk_last_error(s.ctx));
        double left = (double)wk_parameter_data(s.model, 0)[0];
        cr_expect_float_eq(left, rows[i].decays ? 1 - 1e-3 * 0.5 : 1, rounding_bound(2), "%zu: %g",
                           i, left);
        small_close(&s);
    }
    cr_expect_eq(wk_custom_new(&both, 1, &model), WK_EINVAL);
    cr_expect_str_eq(wk_last_error(NULL), "buffer w: both decay and no_decay are set");
}

/* As examples/byo has it, with passes that announce their gradients: the loss is known behind them.
 */
Test(told, the_loss_of_a_pass_that_has_announced_its_gradients)
{
    static const char *const settings[][4] = {
        {"strategy=ddp", NULL},
        {"strategy=zero1", NULL},
        {"strategy=zero2", NULL},
        {"strategy=fsdp", "mixed_precision=bf16", NULL},
        {"strategy=ddp", "gradient_accumulation_steps=2", NULL},
    };
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct wk_model *model;
        struct small s;
        int passes = settings[i][1] && settings[i][1][0] == 'g' ? 2 : 1;
        small_open(&s, settings[i]);
        cr_assert_eq(wk_custom_new(&buffer, 1, &model), 0);
        cr_assert_eq(
            wk_prepare_all(s.ctx, WK_OBJECT(model), WK_OBJECT(s.optimizer), WK_OBJECT(s.loader)), 0,
            "%s", wk_last_error(s.ctx));
        for (int step = 100; step < 104; step++) {
            for (int pass = 0; pass < passes; pass++) {
                cr_assert(wk_next(s.loader, &batch), "%s", wk_last_error(s.ctx));
                wk_parameter_grad(model, 0)[0] = 1;
                wk_grad_ready(model, 0);
                cr_assert_eq(wk_set_loss(model, step + pass), 0);
                wk_backward(model);
                cr_assert_eq(wk_step(s.optimizer), 0, "%s", wk_last_error(s.ctx));
            }
            cr_expect_float_eq(wk_loss(s.ctx), step + (passes - 1) / 2.0, 1e-4, "row %zu: %g", i,
                               wk_loss(s.ctx));
        }
        small_close(&s);
        wk_model_free(model);
    }
}

Test(told, that_a_loss_comes_too_late)
{
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    struct wk_model *model;
    struct small s;
    small_open(&s, NULL);
    cr_assert_eq(wk_custom_new(&buffer, 1, &model), 0);
    cr_assert_eq(
        wk_prepare_all(s.ctx, WK_OBJECT(model), WK_OBJECT(s.optimizer), WK_OBJECT(s.loader)), 0);
    custom_step(&s, model, true);
    cr_assert(wk_next(s.loader, &batch));
    wk_backward(model);
    cr_expect_eq(wk_set_loss(model, 2), WK_ESTATE);
    cr_expect(strstr(wk_last_error(s.ctx), "call it before wk_backward"), "%s",
              wk_last_error(s.ctx));
    small_close(&s);
    wk_model_free(model);
}

Test(told, that_no_loss_is_set)
{
    static const char *const settings[] = {"total_steps=9", "gradient_accumulation_steps=2", NULL};
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    struct wk_model *model;
    struct small s;
    small_open(&s, settings);
    cr_assert_eq(wk_custom_new(&buffer, 1, &model), 0);
    cr_assert_eq(
        wk_prepare_all(s.ctx, WK_OBJECT(model), WK_OBJECT(s.optimizer), WK_OBJECT(s.loader)), 0);
    custom_step(&s, model, false);
    custom_step(&s, model, true);
    cr_expect_float_eq(wk_loss(s.ctx), 0.25, 1e-6); /* the mean over the window */
    cr_expect_str_empty(wk_last_notice(s.ctx));
    custom_step(&s, model, false);
    custom_step(&s, model, false);
    cr_expect(isnan(wk_loss(s.ctx)) && isnan(wk_model_loss(model)));
    cr_expect(strstr(wk_last_notice(s.ctx), "wk_set_loss"), "%s", wk_last_notice(s.ctx));
    context_notice(s.ctx, "another");
    custom_step(&s, model, false);
    custom_step(&s, model, false);
    cr_expect_str_eq(wk_last_notice(s.ctx), "another"); /* once is enough */
    small_close(&s);
    wk_model_free(model);
}

Test(told, notices_go_to_stderr_where_the_program_takes_none, .init = cr_redirect_stderr)
{
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {.environment = &environment};
    struct wk_context *ctx;
    cr_assert_eq(context_open(NULL, &seams, &ctx), 0);
    context_notice(ctx, "%d of %d", 1, 2);
    wk_close(ctx);
    fflush(stderr);
    cr_assert_stderr_eq_str("muster: rank 0: 1 of 2\n");
}

static const char *rank_one(void *arg, const char *name)
{
    static const char *const pairs[][2] = {{"RANK", "1"},
                                           {"WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", "1"},
                                           {"MUSTER_RENDEZVOUS_TIMEOUT", "100ms"}};
    (void)arg;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(pairs[i][0], name) == 0)
            return pairs[i][1];
    return NULL;
}

/* Nobody listens at port 1, and this rank has met none of the others. */
Test(told, which_rank_could_not_open)
{
    struct environment environment = {rank_one, NULL};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    struct wk_context *ctx;
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    cr_assert_eq(context_open(NULL, &seams, &ctx), WK_ETIMEOUT);
    wk_print_error(ctx, out);
    fclose(out);
    cr_expect(strstr(text, "rank 1: 127.0.0.1:1: rank 0 did not answer in 100 ms") == text, "%s",
              text);
    wk_close(ctx);
}

static void pass(struct small *s);

/* Some steps begin and end within one millisecond; log_file has what is reported of each. */
Test(told, how_many_tokens_a_second_fast_steps_make)
{
    struct tmpdir dir = tmpdir_make();
    char setting[300], line[256];
    struct small s;
    int steps = 0;
    double rate;
    const char *path = tmpdir_path(&dir, "log.jsonl");
    snprintf(setting, sizeof(setting), "log_file=%s", path);
    fast_ns = 1;
    small_open(&s, (const char *const[]){setting, "log_every=1", "total_steps=9", NULL});
    cr_assert_eq(small_prepare(&s), 0, "%s", wk_last_error(s.ctx));
    for (int step = 0; step < 9; step++) {
        pass(&s);
        cr_assert_eq(wk_step(s.optimizer), 0);
    }
    small_close(&s);
    fast_ns = 0;
    FILE *file = fopen(path, "r");
    cr_assert(file);
    while (fgets(line, sizeof(line), file)) {
        const char *found = strstr(line, "\"tokens_per_second\",\"value\":");
        if (!found || sscanf(strrchr(found, ':') + 1, "%lf", &rate) != 1)
            continue;
        steps++;
        cr_expect_float_eq(rate, 2 * 8 / 333333e-9, 1, "%s", line);
    }
    fclose(file);
    cr_expect_eq(steps, 9);
    tmpdir_remove(&dir);
}

static void pass(struct small *s)
{
    cr_assert(wk_next(s->loader, &batch), "%s", wk_last_error(s->ctx));
    wk_forward(s->model, &batch, NULL);
    wk_backward(s->model);
}

/* A killed process loses what its stream still holds, and `logs -f` shows nothing of it. */
Test(told, a_printed_line_is_out_at_once)
{
    char path[] = "/tmp/wk-print-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    unlink(path);
    FILE *out = fdopen(fd, "w");
    cr_assert(out && setvbuf(out, NULL, _IOFBF, BUFSIZ) == 0);
    struct small s;
    small_open(&s, NULL);
    wk_print(s.ctx, out, "half a ");
    cr_expect_eq(lseek(fd, 0, SEEK_END), 0, "no line yet");
    wk_print(s.ctx, out, "line %d\n", 7);
    cr_expect_eq(lseek(fd, 0, SEEK_END), (off_t)strlen("half a line 7\n"));
    fclose(out);
    small_close(&s);
}

Test(told, whether_the_last_step_was_taken)
{
    static const char *const settings[] = {"total_steps=9", "gradient_accumulation_steps=3",
                                           "mixed_precision=fp16", NULL};
    struct small s;
    small_open(&s, settings);
    cr_expect_not(wk_step_taken(NULL));
    cr_expect_not(wk_step_taken(s.optimizer));
    cr_assert_eq(small_prepare(&s), 0);
    for (int i = 1; i <= 6; i++) {
        pass(&s);
        cr_expect_eq(wk_step_taken(s.optimizer), i == 4, "before pass %d's step", i);
        cr_assert_eq(wk_step(s.optimizer), 0);
        cr_expect_eq(wk_step_taken(s.optimizer), i % 3 == 0, "pass %d", i);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert(wk_next(s.loader, &batch));
        wk_forward(s.model, &batch, NULL);
        small_range(&s)->grads[3] = INFINITY;
        wk_backward(s.model);
        cr_assert_eq(wk_step(s.optimizer), 0);
    }
    cr_expect(wk_step_skipped(s.ctx));
    cr_expect_not(wk_step_taken(s.optimizer));
    small_close(&s);
}

/* The numbers of one window of two passes, each loss and the norm asked for or not. */
static struct wk_step_numbers numbers_of(bool asks, float *ret_norm)
{
    static const char *const settings[] = {"total_steps=9", "gradient_accumulation_steps=2", NULL};
    struct wk_step_numbers numbers;
    struct small s;
    double loss;
    float unread;
    small_open(&s, settings);
    cr_expect_eq(wk_step_numbers(s.optimizer, &numbers), WK_ESTATE);
    cr_expect_eq(wk_step_numbers(NULL, &numbers), WK_EINVAL);
    cr_assert_eq(small_prepare(&s), 0);
    cr_assert_eq(wk_step_numbers(s.optimizer, &numbers), 0);
    cr_expect(isnan(numbers.loss) && numbers.norm <= 0 && !numbers.finite && !numbers.skipped);
    for (int i = 0; i < 2; i++) {
        cr_assert(wk_next(s.loader, &batch));
        cr_assert_eq(wk_forward(s.model, &batch, asks ? &loss : NULL), 0);
        cr_assert_eq(wk_backward(s.model), 0);
        cr_assert_eq(wk_clip_grad_norm(s.model, 0.01f, asks ? ret_norm : NULL), 0);
        cr_assert_eq(wk_step(s.optimizer), 0);
        cr_assert_eq(wk_step_numbers(s.optimizer, &numbers), 0);
        cr_expect_eq(numbers.finite, i == 1);
    }
    cr_expect_eq(wk_clip_grad_norm(s.model, 1, &unread), 0);
    cr_expect_float_eq(wk_loss(s.ctx), numbers.loss, 0);
    small_close(&s);
    return numbers;
}

Test(told, the_loss_and_the_norm_of_the_last_step)
{
    float norm = 0;
    struct wk_step_numbers asked = numbers_of(true, &norm), unasked = numbers_of(false, NULL);
    cr_expect_float_eq(asked.loss, unasked.loss, 0);
    cr_expect_float_eq(asked.norm, unasked.norm, 0);
    cr_expect_float_eq((float)asked.norm, norm, 0);
    cr_expect_gt(norm, 0.01f);
}

/* Between a forward pass and its backward pass there is no room for an evaluation. */
Test(told, what_an_evaluation_cannot_do)
{
    static const char *const settings[] = {"total_steps=9", NULL};
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {4}};
    float losses[16];
    int32_t token;
    struct wk_outputs outputs = {.losses = losses};
    struct wk_model *model;
    struct small s;
    small_open(&s, settings);
    cr_expect_eq(wk_evaluate(s.model, &batch, NULL, NULL), WK_ESTATE);
    cr_expect_eq(wk_evaluate(NULL, &batch, NULL, NULL), WK_EINVAL);
    cr_assert_eq(small_prepare(&s), 0);
    cr_assert(wk_next(s.loader, &batch));
    wk_forward(s.model, &batch, NULL);
    cr_expect_eq(wk_evaluate(s.model, &batch, NULL, &outputs), 0);
    cr_expect_gt(losses[15], 0);
    cr_expect_eq(wk_backward(s.model), WK_ESTATE);
    small_close(&s);

    small_open(&s, settings);
    cr_assert_eq(small_prepare(&s), 0);
    cr_assert(wk_next(s.loader, &batch));
    batch.targets = NULL;
    cr_expect_eq(wk_evaluate(s.model, &batch, NULL, &outputs), WK_EINVAL);
    cr_expect(strstr(wk_last_error(s.ctx), "no input targets"), "%s", wk_last_error(s.ctx));
    small_close(&s);

    small_open(&s, settings);
    cr_assert_eq(wk_custom_new(&buffer, 1, &model), 0);
    cr_assert_eq(
        wk_prepare_all(s.ctx, WK_OBJECT(model), WK_OBJECT(s.optimizer), WK_OBJECT(s.loader)), 0);
    cr_assert(wk_next(s.loader, &batch));
    cr_expect_eq(wk_evaluate(model, &batch, NULL, &outputs), WK_EUNSUPPORTED);
    cr_expect(strstr(wk_last_error(s.ctx), "program's own"), "%s", wk_last_error(s.ctx));
    cr_expect_eq(wk_generate(model, &(struct wk_generate_options){0}, 1, &token), WK_EUNSUPPORTED);
    small_close(&s);
    wk_model_free(model);
}

/* Whole states and cut ones are looked for in ways of their own. */
Test(told, that_a_path_is_too_long)
{
    static const char *const strategies[] = {"strategy=ddp", "strategy=fsdp"};
    char path[2048] = "resume_from=/";
    memset(path + strlen(path), 'a', CHECKPOINT_PATH_MAX);
    for (int i = 0; i < 2; i++) {
        struct small s;
        small_open(&s, (const char *const[]){strategies[i], path, NULL});
        cr_expect_eq(small_prepare(&s), WK_EINVAL);
        cr_expect(strstr(wk_last_error(s.ctx), "resume_from is too long"), "%s",
                  wk_last_error(s.ctx));
        small_close(&s);
    }
}
