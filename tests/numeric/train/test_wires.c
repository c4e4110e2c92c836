/* Training of processes whose devices have collectives of their own: with the bits of the CPU under
 * every strategy and type, with one wait a step, and on without a rank that was killed. The devices
 * are rehearsal devices, whose collectives are own_wire.h's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/two_level.h"
#include "tests/numeric/train/wires_run.h"

#ifdef MISTAKES_ARE_NOT_SEEN
enum { FIRST_STRATEGY = 3 }; /* of two levels: a device that is watched takes ten times as long */
#else
enum { FIRST_STRATEGY = 0 };
#endif
enum { ABORT_MS = 1000 }; /* from the death of a rank to the abort of the others' collectives */

static void every_strategy_has_the_bits_of_the_cpu(void)
{
    for (int s = 0; s < 4; s++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            same_bits(&(struct run){.strategy = strategies[s], .ranks = ranks});
            same_bits(
                &(struct run){.strategy = strategies[s], .ranks = ranks, .accumulation = "2"});
        }
    for (int s = 2; s < 4; s++)
        same_bits(&(struct run){.strategy = strategies[s], .ranks = 4, .replicas = "2"});
}

static void so_it_has_in_narrow_types(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 3, .precision = "bf16"};
        same_bits(&run);
        run.precision = "fp16";
        same_bits(&run);
        run.masters = "host";
        same_bits(&run);
        run.precision = "bf16";
        run.accumulation = "2";
        run.low_gradients = "true";
        if (s > 0)
            same_bits(&run);
    }
    same_bits(&(struct run){.strategy = "fsdp",
                            .ranks = 4,
                            .replicas = "2",
                            .precision = "bf16",
                            .low_gradients = "true"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 3, .hook = "bf16"});
    same_bits(&(struct run){.strategy = "ddp", .ranks = 3, .hook = "powersgd"});
}

/* Batch statistics of all ranks are sums in the middle of a pass. */
static void so_have_operations_over_the_ranks(void)
{
    for (int s = 0; s < 4; s++)
        same_bits(&(struct run){
            .strategy = strategies[s], .ranks = 2, .graph = &graph_kinds[GRAPH_BATCH_NORM]});
}

static void fast_sums_are_the_devices(void)
{
    static struct told ordered;
    double most = 0;
    struct run run = {.strategy = "ddp", .ranks = 3, .on = OWN};
    play_well(&run);
    ordered = scene->told[0];
    run.sums = "fast";
    play_well(&run);
    for (int i = 0; i < WEIGHTS_MAX; i++)
        most = fmax(most, fabs((double)scene->told[0].weights[i] - (double)ordered.weights[i]));
    printf("fast and ordered sums: weights differ by %.2e at most\n", most);
    CHECK(most > 0 && most < toy_bounds(STEPS).weights);
}

static void a_step_waits_once(void)
{
    for (int s = 0; s < 4; s++) {
        struct run run = {
            .strategy = strategies[s], .ranks = 2, .on = OWN, .counts = true, .precision = "bf16"};
        play_well(&run);
        CHECK(scene->told[0].counted == STEPS - 2 && scene->told[1].counted == STEPS - 2);
    }
}

/* As through the hosts, the survivors go on from the last step that all have. */
static void survivors_of_a_killed_rank_train_on(void)
{
    static struct told staged;
    struct run run = {.strategy = "ddp", .steps = "12", .kills = true};
    for (run.ranks = 2; run.ranks <= 3; run.ranks++) {
        run.on = STAGED;
        play_well(&run);
        staged = scene->told[0];
        run.on = OWN;
        play_well(&run);
        long long took = own_wires_aborted_ms(wires) - atomic_load(&scene->killed_ms);
        printf("%d ranks: aborted %lld ms after the kill\n", run.ranks, took);
        CHECK(took >= 0 && took < ABORT_MS);
        CHECK(staged.losses[LONG_STEPS] > 0);
        for (int i = 0; i < run.ranks - 1; i++)
            check_same(&scene->told[i], &staged);
    }
}

/* All gradients are there, and the update is enqueued; but a later sum is not to be trusted. */
static void an_update_after_a_lost_sum_changes_nothing(void)
{
    enum { SEEDS = 6 };
    static struct told staged;
    struct run run = {.strategy = "ddp", .steps = "12", .kills = true, .ranks = 3, .on = STAGED};
    play_well(&run);
    staged = scene->told[0];
    run.on = OWN;
    run.late = true;
    for (run.seed = 0; run.seed < SEEDS; run.seed++) {
        play_well(&run);
        for (int i = 0; i < run.ranks - 1; i++)
            check_same(&scene->told[i], &staged);
    }
}

/* A part of the state is lost: they return to a checkpoint. */
static void so_they_do_under_strategies_that_cut(void)
{
    for (int s = 1; s < 5; s++) { /* the last one with two replicas: three communicators */
        struct tmpdir dir = tmpdir_make();
        struct run run = {.strategy = strategies[s < 4 ? s : 3],
                          .replicas = s < 4 ? NULL : "2",
                          .ranks = s < 4 ? 3 : 4,
                          .steps = "12",
                          .kills = true,
                          .dir = dir.path,
                          .on = OWN};
        play_well(&run);
        long long took = own_wires_aborted_ms(wires) - atomic_load(&scene->killed_ms);
        printf("%s: aborted %lld ms after the kill\n", run.strategy, took);
        CHECK(took >= 0 && took < ABORT_MS);
        CHECK(scene->told[0].losses[LONG_STEPS] > 0);
        check_same(&scene->told[0], &scene->told[1]);
        tmpdir_remove(&dir);
    }
}

/* As through the hosts: an error, and no wait without end. */
static void a_rank_that_leaves_early_is_an_error_of_the_others(void)
{
    struct run run = {.strategy = "fsdp", .steps = "12", .ranks = 2, .on = OWN, .leaves = true};
    CHECK(!play(&run));
    CHECK(scene->told[1].status == 0 && scene->told[0].status);
    CHECK(strstr(scene->told[0].notices, "generation 1 is broken: a rank has left"));
}

/* Its process ends, for an agent to start it again. */
static void an_abort_that_hangs_has_a_deadline(void)
{
    const struct run run = {.strategy = "ddp",
                            .steps = "12",
                            .kills = true,
                            .ranks = 2,
                            .on = OWN,
                            .fault = OWN_WIRES_HANG};
    CHECK(!play(&run));
}

static void without_one_on_every_rank_data_goes_through_the_hosts(void)
{
    static struct told staged;
    struct run run = {.strategy = "fsdp", .ranks = 2, .on = STAGED};
    play_well(&run);
    staged = scene->told[0];
    run.on = OWN;
    for (run.fault = OWN_WIRES_ABSENT; run.fault <= OWN_WIRES_FAIL; run.fault++) {
        if (run.fault == OWN_WIRES_FAIL) /* which is waited for in vain */
            run.timeout = "5s";
        play_well(&run);
        CHECK(own_wires_messages(wires) == 0);
        check_same(&scene->told[0], &staged);
        CHECK(strstr(scene->told[0].notices, "through the hosts"));
        printf("%s", scene->told[0].notices);
    }
}

/* A cable, not a rank: all go on in the next generation, from the step that they have. */
static void ranks_outlive_a_wire_that_breaks(void)
{
    struct run run = {.strategy = "ddp", .steps = "12", .ranks = 3, .fault = OWN_WIRES_BREAK};
    same_bits(&run);
    printf("%s", scene->told[2].notices);
    CHECK(strstr(scene->told[2].notices, "generation 1 is broken: "));
    CHECK(!strstr(scene->told[2].notices, "generation 2 is broken: "));
}

/* Their library is opened beside all else, but only if this process may have other ranks. */
static void wires_are_prepared_where_ranks_may_exchange(void)
{
    struct run run = {.strategy = "ddp", .ranks = 2, .on = OWN};
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 2);
    run.ranks = 1; /* more may join */
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 1);
    run.collectives = "off";
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 0);
    run = (struct run){.strategy = "ddp", .ranks = 1, .on = OWN, .alone = true};
    play_well(&run);
    CHECK(own_wires_prepared(wires) == 0);
}

static void check_alike(const struct told *told, const struct told *others, int n)
{
    double most = 0;
    for (int i = 0; i < WEIGHTS_MAX; i++)
        most = fmax(most, fabs((double)told->weights[i] - (double)others->weights[i]));
    printf("weights differ by %.2e at most\n", most);
    CHECK(most < toy_bounds(STEPS).weights);
    for (int i = 0; i < n; i++)
        check_same(&others[i], &others[0]);
}

/* Two hosts of two ranks, with no wire between them. */
static struct run in_two_levels(const char *strategy)
{
    return (struct run){.strategy = strategy,
                        .ranks = 4,
                        .on = OWN,
                        .per_host = 2,
                        .between = "tcp",
                        .sums = "fast"};
}

/* Their sums are in another order, which has the bits of none on one host. */
static void hosts_without_a_wire_between_them_train_in_two_levels(void)
{
    static struct told one_host;
    for (int s = FIRST_STRATEGY; s < 4; s++) {
        struct run run = in_two_levels(strategies[s]);
        run.on = ON_CPU;
        play_well(&run);
        one_host = scene->told[0];
        run.on = OWN;
        play_well(&run);
        CHECK(own_wires_messages(wires) > 0);
        CHECK(!strstr(scene->told[0].notices, "through the hosts"));
        check_alike(&one_host, scene->told, 4);
        run.sums = NULL;
        play_well(&run);
        CHECK(strstr(scene->told[0].notices, "data of sums passes through the hosts"));
        for (int i = 0; i < 4; i++)
            check_same(&scene->told[i], &one_host);
    }
}

static void play_alike(const struct run *run)
{
    play_well(run);
    CHECK(scene->told[0].losses[STEPS] > 0);
    for (int i = 1; i < 4; i++)
        check_same(&scene->told[i], &scene->told[0]);
}

static void so_they_do_in_narrow_types_and_replicas(void)
{
    static struct told first;
    for (int s = FIRST_STRATEGY; s < 5; s++) {
        struct run run = in_two_levels(strategies[s < 4 ? s : 3]);
        run.replicas = s < 4 ? NULL : "2";
        run.precision = "bf16";
        run.accumulation = "2";
        run.low_gradients = s > 0 ? "true" : NULL;
        play_alike(&run);
    }
    struct run run = in_two_levels("ddp");
    run.graph = &graph_kinds[GRAPH_BATCH_NORM];
    play_alike(&run);
    first = scene->told[0];
    play_alike(&run); /* with the same bits again */
    check_same(&scene->told[0], &first);
    run.hook = "bf16";
    play_alike(&run);
}

/* Three of them are on unequal hosts. Late: the other rank of its host waits for what it has of the
 * hosts' sum, while the other host may have all of it. */
static void ranks_in_two_levels_outlive_a_rank(void)
{
    enum { TIMES = 3 };
    struct run run = in_two_levels("ddp");
    run.steps = "12";
    run.kills = true;
    for (int i = 0; i < TIMES; i++) {
        run.late = i > 0;
        run.seed = (uint64_t)i;
        play_well(&run);
        CHECK(scene->told[0].losses[LONG_STEPS] > 0);
        CHECK(strstr(scene->told[0].notices, "the same number of ranks"));
        check_same(&scene->told[1], &scene->told[0]);
        check_same(&scene->told[2], &scene->told[0]);
    }
}

static void so_they_do_a_wire(void)
{
    struct run run = in_two_levels("ddp");
    run.steps = "12";
    run.fault = OWN_WIRES_BREAK;
    play_alike(&run);
    CHECK(strstr(scene->told[3].notices, "generation 1 is broken: "));
    CHECK(!strstr(scene->told[3].notices, "through the hosts"));
}

#ifndef MISTAKES_ARE_NOT_SEEN
static void mistakes_are_found(void)
{
    for (int s = 0; s < 4; s++)
        for (enum mistake mistake = NONE + 1; mistake < MISTAKES; mistake++) {
            const struct run run = {
                .strategy = strategies[s], .ranks = 2, .on = OWN, .mistake = mistake};
            bool has = play(&run);
            printf("%s: mistake %d %s\n", strategies[s], (int)mistake, has ? "found" : "not found");
            CHECK(has);
        }
}

#endif

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_strategy_has_the_bits_of_the_cpu),
        CHECK_CASE(so_it_has_in_narrow_types),
        CHECK_CASE(so_have_operations_over_the_ranks),
        CHECK_CASE(fast_sums_are_the_devices),
        CHECK_CASE(a_step_waits_once),
        CHECK_CASE(survivors_of_a_killed_rank_train_on),
        CHECK_CASE(an_update_after_a_lost_sum_changes_nothing),
        CHECK_CASE(so_they_do_under_strategies_that_cut),
        CHECK_CASE(a_rank_that_leaves_early_is_an_error_of_the_others),
        CHECK_CASE(an_abort_that_hangs_has_a_deadline),
        CHECK_CASE(without_one_on_every_rank_data_goes_through_the_hosts),
        CHECK_CASE(ranks_outlive_a_wire_that_breaks),
        CHECK_CASE(wires_are_prepared_where_ranks_may_exchange),
        CHECK_CASE(every_call_in_two_levels_is_exact),
        CHECK_CASE(calls_in_two_levels_overlap),
        CHECK_CASE(a_host_sends_its_data_once),
        CHECK_CASE(sums_in_rank_order_pass_through_the_hosts),
        CHECK_CASE(unequal_hosts_pass_data_through_them),
        CHECK_CASE(every_rank_hears_of_a_death_in_any_phase),
        CHECK_CASE(hosts_without_a_wire_between_them_train_in_two_levels),
        CHECK_CASE(so_they_do_in_narrow_types_and_replicas),
        CHECK_CASE(ranks_in_two_levels_outlive_a_rank),
        CHECK_CASE(so_they_do_a_wire),
#ifndef MISTAKES_ARE_NOT_SEEN
        CHECK_CASE(mistakes_are_found),
        CHECK_CASE(mistakes_in_two_levels_are_found),
#endif
        {0},
    };
    scene_new();
    return check_all(cases, argc, argv);
}
