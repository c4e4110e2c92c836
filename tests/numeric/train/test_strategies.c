/* Every strategy trains as one process does: the same losses, gradient norms and final weights,
 * with and without accumulation, on 1 to 4 ranks; and between strategies on the same ranks, the
 * same bits.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 12, RANKS_MAX = 4, WEIGHTS_MAX = 1 << 16 };

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

struct variant {
    const char *strategy, *accumulation, *prefetch, *reshard, *bucket;
    int ranks;
    int64_t batch;
    bool custom, no_clip;
};

struct outcome {
    double losses[STEPS + 1];
    float norms[STEPS + 1];
    float weights[WEIGHTS_MAX];
};

static void configure(struct toy *toy, const struct variant *v)
{
    toy->custom = v->custom;
    toy->batch = v->batch;
    toy->clip = v->no_clip ? -1 : 1;
    toy_set(toy, "total_steps", "12");
    toy_set(toy, "strategy", v->strategy);
    toy_set(toy, "gradient_accumulation_steps", v->accumulation ? v->accumulation : "1");
    toy_set(toy, "bucket_mib", v->bucket ? v->bucket : "0.02");
    toy_set(toy, "first_bucket_mib", v->bucket ? v->bucket : "0.01");
    if (v->prefetch)
        toy_set(toy, "fsdp.prefetch", v->prefetch);
    if (v->reshard)
        toy_set(toy, "fsdp.reshard_after_forward", v->reshard);
}

/* Ranks of one host sum and gather where the gradients and parameters lie. */
static bool looks_in_place(void *arg, struct wk_context *ctx)
{
    struct wk_comm_statistics statistics;
    wk_comm_statistics(wk_communicator(ctx), &statistics);
    *(bool *)arg = wk_world(ctx) == 1 || statistics.in_place > 0;
    return false;
}

static void run(const struct variant *v, struct outcome *ret)
{
    static bool in_place[RANKS_MAX];
    static const int workers[RANKS_MAX] = {0, 1, 2, 3};
    static struct toy toys[RANKS_MAX];
    static float weights[RANKS_MAX][WEIGHTS_MAX];
    pthread_t threads[RANKS_MAX];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, workers, v->ranks);
    memset(toys, 0, sizeof(toys));
    memset(weights, 0, sizeof(weights));
    for (int i = 0; i < v->ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].weights = weights[i];
        toys[i].stepped = looks_in_place;
        toys[i].arg = &in_place[i];
        in_place[i] = false;
        configure(&toys[i], v);
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < v->ranks; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "%s, rank %d of %d: %s\n%s", v->strategy, i, v->ranks, toys[i].error,
                    toys[i].notices);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        CHECK(in_place[i]);
        CHECK(memcmp(toys[i].losses, toys[0].losses, sizeof(toys[0].losses)) == 0);
        CHECK(memcmp(toys[i].norms, toys[0].norms, sizeof(toys[0].norms)) == 0);
        CHECK(memcmp(weights[i], weights[0], sizeof(weights[0])) == 0);
    }
    fake_fini(&cluster);
    memcpy(ret->losses, toys[0].losses, sizeof(ret->losses));
    memcpy(ret->norms, toys[0].norms, sizeof(ret->norms));
    memcpy(ret->weights, weights[0], sizeof(ret->weights));
}

static double most_apart(const struct outcome *a, const struct outcome *b, double *ret_norms,
                         double *ret_weights)
{
    double losses = 0, norms = 0, weights = 0;
    for (int i = 1; i <= STEPS; i++) {
        losses = fmax(losses, fabs(a->losses[i] - b->losses[i]) / fabs(a->losses[i]));
        norms = fmax(norms, fabs((double)(a->norms[i] - b->norms[i])) /
                                fmax(1e-30, fabs((double)a->norms[i])));
    }
    for (int i = 0; i < WEIGHTS_MAX; i++)
        weights = fmax(weights, fabs((double)(a->weights[i] - b->weights[i])));
    *ret_norms = norms;
    *ret_weights = weights;
    return losses;
}

static struct outcome one, other;

/* Adam divides by the square root of what may be rounding alone, so weights are compared loosely
 * where the order of sums differs, and by bits where it does not (zero2 and fsdp sum over ranks in
 * every pass of a window). */
static void compare_with_one_process(bool custom, const char *accumulation, int64_t batch)
{
    run(&(struct variant){.strategy = "ddp",
                          .ranks = 1,
                          .accumulation = accumulation,
                          .custom = custom,
                          .batch = batch},
        &one);
    CHECK(one.losses[STEPS] < one.losses[1]);
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            struct variant v = {.strategy = strategies[s],
                                .ranks = ranks,
                                .accumulation = accumulation,
                                .custom = custom,
                                .batch = batch};
            double norms, weights, losses;
            run(&v, &other);
            losses = most_apart(&one, &other, &norms, &weights);
            printf("%s on %d, accumulation %s%s: losses %.1e, norms %.1e, weights %.1e\n",
                   v.strategy, ranks, accumulation, custom ? ", own passes" : "", losses, norms,
                   weights);
            CHECK(losses < 1e-6 && norms < 1e-6 && weights < 2e-5);
        }
}

static void strategies_equal_one_process(void)
{
    compare_with_one_process(false, "1", 0);
}

static void strategies_equal_one_process_with_accumulation(void)
{
    compare_with_one_process(false, "3", 0);
}

static void empty_shares_change_nothing(void)
{
    compare_with_one_process(false, "1", 3); /* 4 ranks: one has no sample */
}

static void programs_with_their_own_passes_are_cut_too(void)
{
    compare_with_one_process(true, "2", 0);
}

static void same_bits(const struct variant *a, const struct variant *b)
{
    run(a, &one);
    run(b, &other);
    CHECK(memcmp(one.losses, other.losses, sizeof(one.losses)) == 0);
    CHECK(memcmp(one.weights, other.weights, sizeof(one.weights)) == 0);
}

static void strategies_give_the_same_bits_without_clipping(void)
{
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (int s = 1; s < 4; s++)
            same_bits(
                &(struct variant){.strategy = "ddp", .ranks = ranks, .no_clip = true},
                &(struct variant){.strategy = strategies[s], .ranks = ranks, .no_clip = true});
    same_bits(
        &(struct variant){.strategy = "ddp", .ranks = 2, .no_clip = true, .accumulation = "2"},
        &(struct variant){.strategy = "zero1", .ranks = 2, .no_clip = true, .accumulation = "2"});
}

static void fsdp_options_change_memory_not_bits(void)
{
    struct variant plain = {.strategy = "fsdp", .ranks = 2};
    for (int prefetch = 0; prefetch <= 4; prefetch += 2) {
        struct variant v = plain;
        char number[8];
        snprintf(number, sizeof(number), "%d", prefetch);
        v.prefetch = number;
        v.reshard = prefetch == 2 ? "false" : "true";
        same_bits(&plain, &v);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(strategies_equal_one_process),
        CHECK_CASE(strategies_equal_one_process_with_accumulation),
        CHECK_CASE(empty_shares_change_nothing),
        CHECK_CASE(programs_with_their_own_passes_are_cut_too),
        CHECK_CASE(strategies_give_the_same_bits_without_clipping),
        CHECK_CASE(fsdp_options_change_memory_not_bits),
        {0},
    };
    return check_all(cases, argc, argv);
}
