/* Two models in one program: every strategy trains both as one process does; ranks that leave
 * between the two optimizer steps, joiners and checkpoints change nothing.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "libworker/step/break.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/pair_gang.h"

enum { LEAVES_IN = 9, FIRST_PART = 10 };

static struct pair in(const char *precision)
{
    struct pair like = {.coupled = true};
    if (precision)
        pair_set(&like, "mixed_precision", precision);
    return like;
}

static void compare(const struct pair *like, int ranks, const char *what)
{
    struct bounds bounds = bounds_of(like);
    check_like_one(run(like, ranks), &bounds, what);
}

static void both_step_in_every_step(void)
{
    matrix((struct pair){0}, "two language models");
    matrix((struct pair){.coupled = true}, "the second reads the first");
}

/* Passes of the program's own on floats that hold rounded numbers; test_pair_narrow.c has products
 * of narrow ones. */
static void both_read_rounded_numbers(void)
{
    matrix(in("bf16"), "bf16");
    matrix(in("fp16"), "fp16");
}

static void the_second_rests(void)
{
    matrix((struct pair){.coupled = true, .rests = 3}, "every third");
}

static void the_first_steps_several_times(void)
{
    matrix((struct pair){.coupled = true, .repeats = 3}, "three to one");
}

static void each_has_a_loader(void)
{
    matrix((struct pair){.coupled = true, .own_loader = true}, "two loaders");
}

static void the_program_brings_its_data(void)
{
    matrix((struct pair){.coupled = true, .own_data = true}, "own data");
    matrix((struct pair){.coupled = true, .own_data = true, .repeats = 3}, "three on one's own");
}

static void windows_of_several_passes(void)
{
    static const char *const precisions[] = {NULL, "bf16", "fp16"};
    for (int p = 0; p < 3; p++) {
        struct pair with = in(precisions[p]);
        pair_set(&with, "gradient_accumulation_steps", "2");
        pair_set(&with, "strategy", "ddp");
        run_one(&with);
        for (int s = 0; s < 4; s++) {
            with.settings[with.n_settings - 1].value = strategies[s];
            compare(&with, 3, "windows of 2");
        }
    }
}

static void replicas_of_cut_models(void)
{
    struct pair with = {.coupled = true};
    pair_set(&with, "strategy", "ddp");
    run_one(&with);
    pair_set(&with, "mesh.dp_replicate", "2");
    for (int s = 1; s < 4; s++) {
        with.settings[0].value = strategies[s];
        compare(&with, 4, "replicas");
    }
}

static void a_teacher_is_only_read(void)
{
    struct pair with = {.frozen = true};
    pair_set(&with, "strategy", "ddp");
    run_one(&with);
    compare(&with, 3, "teacher");
}

/* A worker leaves in step LEAVES_IN at a place. */
struct leaver {
    int place; /* -1: nowhere */
};

static bool leaves(void *arg, struct wk_context *ctx, enum pair_place place)
{
    const struct leaver *leaver = arg;
    (void)wk_save_wait(ctx); /* so that there is one to go back to */
    return wk_steps(ctx) == LEAVES_IN - 1 && (int)place == leaver->place;
}

static void first_goes_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0}, 1);
}

static void newcomer_replaces_the_second(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 2}, 2);
}

/* Of two ranks under ddp the second leaves at `place`; the first goes on alone or with a new one.
 */
static void lose_one(struct pair like, enum pair_place place, bool replaced, const char *what)
{
    struct leaver leaver = {place};
    struct bounds bounds = bounds_of(&like);
    pair_set(&like, "strategy", "ddp");
    run_one(&like);
    struct gang *gang = gang_new(2);
    gang->cluster.on_lost = replaced ? newcomer_replaces_the_second : first_goes_on;
    gang->pairs[1].at = leaves;
    gang->pairs[1].arg = &leaver;
    for (int i = 0; i < (replaced ? 3 : 2); i++)
        gang_start(gang, i, &like);
    gang_finish(gang);
    for (int i = 0; i < (replaced ? 3 : 1); i += 2) {
        /* What a repeated window measures is of the model that has its step already. */
        gang->pairs[i].norms[0][LEAVES_IN] = one.norms[0][LEAVES_IN];
        check_ended(&gang->pairs[i]);
        check_like_one(&gang->pairs[i], &bounds, what);
    }
    for (int step = 1; step <= PAIR_STEPS; step++)
        CHECK(like.repeats || (gang->pairs[0].losses[0][step] == 0) == (one.losses[0][step] == 0));
}

/* The second's loader is asked twice in a step whose second turn finds no window open. */
static void two_loaders_in_windows(enum pair_place place, bool replaced)
{
    struct pair like = {.coupled = true, .own_loader = true, .rests = 3};
    pair_set(&like, "gradient_accumulation_steps", "2");
    lose_one(like, place, replaced, "two loaders in windows");
}

static void a_rank_lost_between_the_two_steps_costs_nothing(void)
{
    for (int replaced = 0; replaced < 2; replaced++) {
        lose_one((struct pair){.coupled = true}, PAIR_BETWEEN, replaced, "between");
        lose_one(in("bf16"), PAIR_BETWEEN, replaced, "between, bf16");
        lose_one(in("fp16"), PAIR_BETWEEN, replaced, "between, fp16");
        lose_one((struct pair){.coupled = true}, PAIR_FORWARD, replaced, "before the first");
        lose_one((struct pair){.coupled = true}, PAIR_DONE, replaced, "after both");
        lose_one((struct pair){.coupled = true, .rests = 3}, PAIR_BETWEEN, replaced, "rests");
        lose_one((struct pair){.coupled = true, .own_loader = true}, PAIR_BETWEEN, replaced,
                 "two loaders");
        lose_one((struct pair){.coupled = true, .own_loader = true}, PAIR_FORWARD, replaced,
                 "before the first of two loaders");
        lose_one((struct pair){.coupled = true, .repeats = 3}, PAIR_BETWEEN, replaced,
                 "three to one");
        lose_one((struct pair){.coupled = true, .own_data = true}, PAIR_BETWEEN, replaced,
                 "own data");
        two_loaders_in_windows(PAIR_BETWEEN, replaced);
        two_loaders_in_windows(PAIR_FORWARD, replaced);
    }
}

/* The first rank has taken the first model's step, the second has not when it loses the first. */
struct straggler {
    struct gang *gang;
    bool first, done;
};

static bool falls_behind(void *arg, struct wk_context *ctx, enum pair_place place)
{
    struct straggler *straggler = arg;
    if (wk_steps(ctx) != LEAVES_IN - 1 || straggler->done)
        return false;
    if (straggler->first && place == PAIR_BETWEEN) {
        atomic_store(&straggler->gang->signal, 1);
        straggler->done = true;
    } else if (!straggler->first && place == PAIR_SUMMED) {
        while (!atomic_load(&straggler->gang->signal))
            usleep(1000);
        straggler->done = true;
        (void)context_break(ctx, WK_EPEER);
    }
    return false;
}

static void both_again(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){1, 0}, 2);
}

static void members_a_window_apart_come_to_the_further_state(void)
{
    struct pair like = {.coupled = true};
    pair_set(&like, "strategy", "ddp");
    run_one(&like);
    struct gang *gang = gang_new(2);
    struct straggler stragglers[2] = {{gang, true, false}, {gang, false, false}};
    gang->cluster.on_lost = both_again;
    for (int i = 0; i < 2; i++) {
        gang->pairs[i].at = falls_behind;
        gang->pairs[i].arg = &stragglers[i];
        gang_start(gang, i, &like);
    }
    gang_finish(gang);
    CHECK(gang->cluster.generation == 2);
    for (int i = 0; i < 2; i++) {
        check_ended(&gang->pairs[i]);
        gang->pairs[i].norms[0][LEAVES_IN] = one.norms[0][LEAVES_IN];
        struct bounds bounds = bounds_of(&like);
        check_like_one(&gang->pairs[i], &bounds, "a window apart");
    }
}

static void check_undisturbed(const struct pair *pair, const char *what)
{
    struct bounds bounds = bounds_of(pair);
    check_like_one(pair, &bounds, what);
}

/* With a folder for checkpoints; its settings point into it. */
static struct pair saving(const struct tmpdir *dir, const char *strategy)
{
    struct pair like = {.coupled = true, .rests = 3};
    pair_set(&like, "strategy", strategy);
    pair_set(&like, "checkpoint.dir", dir->path);
    pair_set(&like, "checkpoint.every", "3 steps");
    pair_set(&like, "resume_from", "latest");
    return like;
}

static void undisturbed_in(const char *precision)
{
    struct pair like = in(precision);
    like.rests = 3;
    pair_set(&like, "strategy", "ddp");
    run_one(&like);
}

static void undisturbed(void)
{
    undisturbed_in(NULL);
}

static void resume(const char *precision)
{
    undisturbed_in(precision);
    for (int s = 0; s < 4; s++) {
        struct tmpdir dir = tmpdir_make();
        struct pair like = saving(&dir, strategies[s]);
        if (precision)
            pair_set(&like, "mixed_precision", precision);
        like.total = FIRST_PART;
        run(&like, 1 + s % 3);
        like.total = 0;
        like.settings[0].value = strategies[(s + 1) % 4];
        const struct pair *second = run(&like, 1 + (s + 1) % 3);
        CHECK(second->losses[0][FIRST_PART] == 0 && second->losses[0][FIRST_PART + 1] > 0);
        check_undisturbed(second, "resumed");
        tmpdir_remove(&dir);
    }
}

static void it_resumes_in_another_world_under_another_strategy(void)
{
    resume(NULL);
    resume("bf16");
    resume("fp16");
}

/* Under zero and fsdp a part of both models goes with its rank, in the middle of a step. */
static void a_lost_part_is_taken_from_the_checkpoint(void)
{
    undisturbed();
    for (int s = 1; s < 4; s++) {
        struct tmpdir dir = tmpdir_make();
        struct pair like = saving(&dir, strategies[s]);
        struct leaver leaver = {PAIR_BETWEEN};
        struct gang *gang = gang_new(2);
        gang->cluster.on_lost = first_goes_on;
        struct leaver stayer = {-1};
        for (int i = 0; i < 2; i++) {
            gang->pairs[i].at = leaves;
            gang->pairs[i].arg = i ? &leaver : &stayer;
            gang_start(gang, i, &like);
        }
        gang_finish(gang);
        check_ended(&gang->pairs[0]);
        CHECK(strstr(gang->pairs[0].notices, "going back to the last checkpoint"));
        check_undisturbed(&gang->pairs[0], "part lost");
        tmpdir_remove(&dir);
    }
}

static void first_two_go_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0, 1}, 2);
}

/* One replica goes when all ranks have taken the first model's step. */
static bool replica_leaves(void *arg, struct wk_context *ctx, enum pair_place place)
{
    struct gang *gang = arg;
    if (wk_steps(ctx) != LEAVES_IN - 1 || ctx->group.generation != 1 || place != PAIR_BETWEEN)
        return false;
    atomic_fetch_add(&gang->signal, 1);
    while (atomic_load(&gang->signal) != 4)
        usleep(1000);
    return ctx->group.rank >= 2;
}

/* The other has all parts and goes on where it was. */
static void a_replica_is_all_it_takes(void)
{
    undisturbed();
    for (int s = 1; s < 4; s++) {
        struct pair like = {.coupled = true, .rests = 3};
        struct gang *gang = gang_new(4);
        pair_set(&like, "strategy", strategies[s]);
        pair_set(&like, "mesh.dp_shard", "2");
        gang->cluster.on_lost = first_two_go_on;
        for (int i = 0; i < 4; i++) {
            gang->pairs[i].at = replica_leaves;
            gang->pairs[i].arg = gang;
            gang_start(gang, i, &like);
        }
        gang_finish(gang);
        for (int i = 0; i < 2; i++) {
            check_ended(&gang->pairs[i]);
            gang->pairs[i].norms[0][LEAVES_IN] = one.norms[0][LEAVES_IN];
            check_undisturbed(&gang->pairs[i], "one replica left");
        }
    }
}

/* The optimizer of the first model's part: in step LEAVES_IN both parts are being updated when the
 * communicator breaks, and neither rank has the other's new part yet.
 */
struct breaker {
    struct gang *gang;
    const int *next; /* the members of generation 2 */
    const struct optimizer_ops *original;
    struct optimizer_ops ops;
};

static struct breaker breakers[2]; /* by rank of generation 1 */

static void break_at_update(const struct wk_optimizer *optimizer,
                            const struct optimizer_segment *segment, struct optimizer_numbers *ret)
{
    struct wk_context *ctx = unit_of_optimizer(optimizer)->ctx;
    struct breaker *breaker = &breakers[ctx->group.rank];
    breaker->original->numbers(optimizer, segment, ret);
    if (ctx->group.generation != 1)
        return;
    atomic_fetch_or(&breaker->gang->signal, 1 << ctx->group.rank);
    while (atomic_load(&breaker->gang->signal) != 3)
        usleep(1000);
    if (ctx->group.rank == 0) {
        fake_form(&breaker->gang->cluster, breaker->next, 2);
        wk_comm_abort(ctx->group.comm);
    }
}

static bool breaks_after_update(void *arg, struct wk_context *ctx, enum pair_place place)
{
    struct breaker *breaker = arg;
    struct wk_optimizer *optimizer = ctx->prepared.units[0].optimizer;
    if (wk_steps(ctx) != LEAVES_IN - 1 || place != PAIR_SUMMED || breaker->original)
        return false;
    breaker->original = optimizer->ops;
    breaker->ops = *optimizer->ops;
    breaker->ops.numbers = break_at_update;
    optimizer->ops = &breaker->ops;
    return false;
}

/* Both ranks' parts hold the step though neither could tell the other: nothing of it is lost. */
static void a_step_that_every_part_took_stays_when_its_gather_breaks(void)
{
    static const int next[2][2] = {{0, 1}, {1, 0}};
    undisturbed();
    for (int s = 1; s < 4; s++)
        for (int turned = 0; turned < 2; turned++) {
            struct pair like = {.coupled = true, .rests = 3};
            struct gang *gang = gang_new(2);
            pair_set(&like, "strategy", strategies[s]);
            for (int i = 0; i < 2; i++) {
                breakers[i] = (struct breaker){.gang = gang, .next = next[turned]};
                gang->pairs[i].at = breaks_after_update;
                gang->pairs[i].arg = &breakers[i];
            }
            for (int i = 0; i < 2; i++)
                gang_start(gang, i, &like);
            gang_finish(gang);
            CHECK(gang->cluster.generation == 2 && atomic_load(&gang->signal) == 3);
            for (int i = 0; i < 2; i++) {
                check_ended(&gang->pairs[i]);
                gang->pairs[i].norms[0][LEAVES_IN] = one.norms[0][LEAVES_IN];
                check_undisturbed(&gang->pairs[i], "gather broken");
            }
        }
}

/* Worker 2 joins behind step 9. */
static bool invites(void *arg, struct wk_context *ctx, enum pair_place place)
{
    struct straggler *straggler = arg;
    if (wk_steps(ctx) != LEAVES_IN || place != PAIR_DONE || straggler->done)
        return false;
    straggler->done = true;
    fake_form(&straggler->gang->cluster, (const int[]){0, 1, 2}, 3);
    return false;
}

static void parts_of_both_are_cut_anew_for_more_ranks(void)
{
    undisturbed();
    for (int s = 0; s < 4; s++) {
        struct pair like = {.coupled = true, .rests = 3};
        pair_set(&like, "strategy", strategies[s]);
        struct gang *gang = gang_new(2);
        struct straggler straggler = {gang, true, false};
        gang->pairs[0].at = invites;
        gang->pairs[0].arg = &straggler;
        for (int i = 0; i < 3; i++)
            gang_start(gang, i, &like);
        gang_finish(gang);
        for (int i = 0; i < 3; i++) {
            check_ended(&gang->pairs[i]);
            check_undisturbed(&gang->pairs[i], "a third joins");
        }
        CHECK(strstr(gang->pairs[0].notices, "rank 0 of 3"));
    }
}

static void states_of_both_in_files(void)
{
    struct tmpdir dir = tmpdir_make();
    struct pair with = {.coupled = true};
    pair_set(&with, "strategy", "ddp");
    run_one(&with);
    pair_set(&with, "offload.dir", dir.path);
    compare(&with, 2, "offloaded");
    with.settings[0].value = "fsdp";
    pair_set(&with, "offload.parameters", "true");
    compare(&with, 2, "offloaded");
    tmpdir_remove(&dir);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(both_step_in_every_step),
        CHECK_CASE(both_read_rounded_numbers),
        CHECK_CASE(the_second_rests),
        CHECK_CASE(the_first_steps_several_times),
        CHECK_CASE(each_has_a_loader),
        CHECK_CASE(the_program_brings_its_data),
        CHECK_CASE(windows_of_several_passes),
        CHECK_CASE(replicas_of_cut_models),
        CHECK_CASE(a_teacher_is_only_read),
        CHECK_CASE(a_rank_lost_between_the_two_steps_costs_nothing),
        CHECK_CASE(members_a_window_apart_come_to_the_further_state),
        CHECK_CASE(it_resumes_in_another_world_under_another_strategy),
        CHECK_CASE(a_lost_part_is_taken_from_the_checkpoint),
        CHECK_CASE(a_replica_is_all_it_takes),
        CHECK_CASE(a_step_that_every_part_took_stays_when_its_gather_breaks),
        CHECK_CASE(parts_of_both_are_cut_anew_for_more_ranks),
        CHECK_CASE(states_of_both_in_files),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
