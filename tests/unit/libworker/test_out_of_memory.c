/* Each allocation of a small training fails once, from wk_open to wk_close: it ends with WK_ENOMEM
 * and a sentence, or does without. Nothing is used that is not there (the sanitizers' matter), and
 * no checkpoint counts as damaged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"
#include "libworker/step/context.h"

static const struct wk_gpt_config shape = {1, 1, 8, 8, 128};
static const char text[] = "in the beginning was the word, and the word was with us, and so on";

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

struct outcome {
    int status;
    int64_t steps;
    bool went_back; /* to an older checkpoint */
    char error[1024];
};

struct how {
    const char *strategy;
    bool own;     /* passes are the program's */
    bool resumes; /* from the second of two checkpoints */
};

static void notice(void *arg, const char *sentence)
{
    struct outcome *outcome = arg;
    outcome->went_back = outcome->went_back || strstr(sentence, "taking the one before");
}

enum { SETTINGS = 5 };

/* Two steps, each saved in `folder`; or from the second one on a third, which is not. */
static struct outcome train(const char *folder, const struct how *how, bool resumes)
{
    static const struct environment empty = {.get = nothing};
    const struct context_seams seams = {.environment = &empty, .quiet = true};
    struct outcome outcome = {0};
    char second[512];
    (void)snprintf(second, sizeof(second), "%s/step-00000002", folder);
    const struct wk_setting saved[SETTINGS] = {{"total_steps", "2"},
                                               {"strategy", how->strategy},
                                               {"checkpoint.dir", folder},
                                               {"checkpoint.every", "1 steps"},
                                               {"checkpoint.patience", "20ms"}};
    const struct wk_setting resumed[SETTINGS] = {{"total_steps", "3"},
                                                 {"strategy", how->strategy},
                                                 {"resume_from", second},
                                                 {"checkpoint.patience", "20ms"},
                                                 {"log_every", "1000"}};
    const struct wk_options options = {.settings = resumes ? resumed : saved,
                                       .n_settings = SETTINGS,
                                       .notice = notice,
                                       .notice_arg = &outcome};
    const struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {5}};
    const struct wk_schedule_options steady = {.kind = WK_SCHEDULE_CONSTANT};
    struct wk_context *ctx = NULL;
    struct wk_source *source = NULL;
    if (context_open(&options, &seams, &ctx) && !ctx)
        return (struct outcome){.status = WK_ENOMEM, .error = "no context"};
    (void)wk_source_bytes(ctx, text, sizeof(text), &source);
    const struct wk_loader_options deal = {source, 8, 2, .epochs = 9};
    struct wk_loader *loader = wk_loader_in(ctx, NULL, &deal);
    struct wk_model *model =
        how->own ? wk_custom_in(ctx, &(struct wk_custom_options){.count = 1, .buffers = &buffer})
                 : wk_gpt_in(ctx, &shape);
    struct wk_optimizer *adam =
        wk_adamw_in(ctx, &(struct wk_adamw_options){1e-3, 0.9, 0.95, 1e-8, 0.1});
    struct wk_scheduler *scheduler = wk_scheduler_in(ctx, adam, &steady);
    (void)wk_prepare(ctx, NULL, 0);
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        if (how->own)
            (void)wk_set_loss(model, 1);
        else
            (void)wk_forward(model, &batch, NULL);
        (void)wk_backward(model);
        (void)wk_step(adam);
        (void)wk_scheduler_step(scheduler);
    }
    outcome.status = wk_status(ctx);
    outcome.steps = wk_steps(ctx);
    (void)snprintf(outcome.error, sizeof(outcome.error), "%s", wk_last_error(ctx));
    (void)wk_close(ctx);
    wk_source_free(source);
    return outcome;
}

static void each_fails_once(struct how how)
{
    const int64_t steps = how.resumes ? 3 : 2;
    int failures = 0;
    struct tmpdir before = tmpdir_make();
    if (how.resumes)
        cr_assert_eq(train(before.path, &how, false).status, 0);
    for (int n = 1;; n++) {
        struct tmpdir dir = tmpdir_make();
        fault_in(n);
        struct outcome outcome = train(how.resumes ? before.path : dir.path, &how, how.resumes);
        bool struck = fault_struck();
        tmpdir_remove(&dir);
        bool done = outcome.status == 0 && outcome.steps == steps;
        cr_expect(done || (struck && outcome.status == WK_ENOMEM),
                  "allocation %d gave %d after %lld steps: %s", n, outcome.status,
                  (long long)outcome.steps, outcome.error);
        cr_expect(done || *outcome.error, "allocation %d: no sentence", n);
        cr_expect(!outcome.went_back, "allocation %d: a checkpoint counted as damaged", n);
        if (!struck)
            break;
        failures++;
    }
    tmpdir_remove(&before);
    cr_expect_gt(failures, 20);
}

Test(out_of_memory, in_passes_of_our_own)
{
    each_fails_once((struct how){.strategy = "ddp"});
}

Test(out_of_memory, in_passes_of_the_programs)
{
    each_fails_once((struct how){.strategy = "ddp", .own = true});
}

Test(out_of_memory, of_a_model_that_is_cut)
{
    each_fails_once((struct how){.strategy = "fsdp"});
}

Test(out_of_memory, while_a_checkpoint_is_resumed_from)
{
    each_fails_once((struct how){.strategy = "ddp", .resumes = true});
    each_fails_once((struct how){.strategy = "fsdp", .resumes = true});
}
