/* Ranks whose loops part: what each is told, and that a stop or a new generation ends an evaluation
 * for all ranks before the same batch where they need each other in it.
 */
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/ranked.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, AT_STEP = 3, BATCHES = 5, LENGTH = 16 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

static void configure(struct toy *toy, const char *strategy)
{
    toy_set(toy, "total_steps", "12");
    toy_set(toy, "strategy", strategy);
    toy_set(toy, "bucket_mib", "0.02");
}

static int evaluate_once(struct wk_context *ctx)
{
    static const int32_t tokens[LENGTH] = {1, 2, 3};
    struct wk_batch batch = {.tokens = tokens, .targets = tokens, .samples = 1, .length = LENGTH};
    return wk_evaluate(ctx->prepared.units[0].model, &batch, NULL, NULL);
}

/* Two ranks as torchrun starts them; rank 1's callback is `stepped`, rank 0's `other`. With `dir`
 * they save there, and leave where a callback is true. */
static void run_ranked(const char *strategy, struct toy *toys,
                       bool (*stepped)(void *, struct wk_context *),
                       bool (*other)(void *, struct wk_context *), const char *dir)
{
    pthread_t threads[RANKS];
    struct ranked ranked[RANKS];
    int port = ranked_port();
    memset(toys, 0, RANKS * sizeof(*toys));
    for (int i = 0; i < RANKS; i++) {
        ranked_init(&ranked[i], i, RANKS, port);
        toys[i].environment = &ranked[i].environment;
        toys[i].stepped = i ? stepped : other;
        configure(&toys[i], strategy);
        toys[i].leave_at_once = dir;
        if (dir)
            toy_set(&toys[i], "checkpoint.dir", dir);
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static bool leave_early(void *arg, struct wk_context *ctx)
{
    (void)arg;
    return wk_steps(ctx) == AT_STEP;
}

static void who_leaves_the_loop_early_is_named_with_the_way_to_leave_together(void)
{
    static struct toy toys[RANKS];
    for (int s = 0; s < 4; s++) {
        run_ranked(strategies[s], toys, leave_early, NULL, NULL);
        printf("%s: %s\n", strategies[s], toys[0].error);
        CHECK(toys[1].status == 0);
        CHECK(toys[0].status == WK_EPEER && toys[0].exit_code == WK_EXIT_PEER);
        CHECK(strstr(toys[0].error, "rank 1 has left"));
        CHECK(strstr(toys[0].error, "its loop ended before the others'"));
        CHECK(strstr(toys[0].error, "wk_triggered on all"));
    }
}

static bool stop_early(void *arg, struct wk_context *ctx)
{
    (void)arg;
    if (wk_steps(ctx) == AT_STEP && ctx->group.rank == 1)
        wk_trigger(ctx);
    return wk_triggered(ctx);
}

static void who_leave_together_by_a_trigger_save_their_last_state(void)
{
    for (int s = 0; s < 4; s++) {
        static struct toy toys[RANKS];
        struct tmpdir dir = tmpdir_make();
        run_ranked(strategies[s], toys, stop_early, stop_early, dir.path);
        for (int i = 0; i < RANKS; i++) {
            if (toys[i].status)
                printf("%s: %s\n", strategies[s], toys[i].error);
            CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        }
        CHECK(wk_checkpoint_verify(NULL, tmpdir_path(&dir, "step-00000003")) == 0);
        tmpdir_remove(&dir);
    }
}

static bool evaluate_one(void *arg, struct wk_context *ctx)
{
    (void)arg;
    if (wk_steps(ctx) == AT_STEP)
        (void)evaluate_once(ctx);
    return false;
}

static bool evaluate_four(void *arg, struct wk_context *ctx)
{
    (void)arg;
    for (int i = 0; i < 4 && wk_steps(ctx) == AT_STEP; i++)
        (void)evaluate_once(ctx);
    return false;
}

static void an_evaluation_that_one_rank_leaves_is_told_as_loops_that_part(void)
{
    static struct toy toys[RANKS];
    run_ranked("fsdp", toys, evaluate_one, evaluate_four, NULL);
    for (int i = 0; i < RANKS; i++) {
        printf("rank %d: %s\n", i, toys[i].error);
        CHECK(toys[i].status == WK_EMISMATCH);
        CHECK(strstr(toys[i].error, "the ranks' loops have parted"));
    }
}

struct evaluation {
    struct fake_cluster *cluster;
    int worker, passes;
};

/* Worker 1 is asked to stop in the middle of it; worker 0 goes on alone. */
static bool evaluate_until_stopped(void *arg, struct wk_context *ctx)
{
    struct evaluation *evaluation = arg;
    double value = 7;
    if (wk_steps(ctx) != AT_STEP)
        return false;
    for (int i = 0; i < BATCHES; i++) {
        if (i == 2 && evaluation->worker == 1)
            fake_stop_one(evaluation->cluster, 1);
        if (!boundary_evaluates(ctx))
            break;
        CHECK(evaluate_once(ctx) == 0);
        evaluation->passes++;
    }
    CHECK(wk_reduce_value(ctx, &value, WK_SUM) == 0);
    CHECK(value == 7); /* what was seen in part counts for nothing */
    if (evaluation->worker == 1)
        fake_form(evaluation->cluster, (const int[]){0}, 1);
    return false;
}

static void a_stop_ends_an_evaluation_for_all_before_the_same_batch(void)
{
    static struct toy toys[RANKS];
    for (int s = 1; s < 4; s++) {
        struct fake_cluster cluster;
        struct evaluation evaluations[RANKS];
        pthread_t threads[RANKS];
        memset(toys, 0, sizeof(toys));
        fake_init(&cluster);
        fake_form(&cluster, (const int[]){0, 1}, RANKS);
        for (int i = 0; i < RANKS; i++) {
            evaluations[i] = (struct evaluation){&cluster, i, 0};
            toys[i].session = fake_session(&cluster, i);
            toys[i].stepped = evaluate_until_stopped;
            toys[i].arg = &evaluations[i];
            configure(&toys[i], strategies[s]);
            pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
        }
        for (int i = 0; i < RANKS; i++) {
            pthread_join(threads[i], NULL);
            if (toys[i].status)
                printf("%s, worker %d: %s\n", strategies[s], i, toys[i].error);
            CHECK(evaluations[i].passes == 2);
            CHECK(strstr(toys[i].notices, "evaluation ends early"));
        }
        CHECK(toys[0].status == 0 && toys[0].losses[12] > 0);
        CHECK(toys[1].exit_code == WK_EXIT_STOPPED);
        fake_fini(&cluster);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(who_leaves_the_loop_early_is_named_with_the_way_to_leave_together),
        CHECK_CASE(who_leave_together_by_a_trigger_save_their_last_state),
        CHECK_CASE(an_evaluation_that_one_rank_leaves_is_told_as_loops_that_part),
        CHECK_CASE(a_stop_ends_an_evaluation_for_all_before_the_same_batch),
        {0},
    };
    return check_all(cases, argc, argv);
}
