/* The same global batches on one rank and on several give the same losses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/ranked.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 50, RANKS_MAX = 4 };

struct variant {
    int ranks;
    bool two_hosts, custom;
    int64_t batch;
    const char *accumulation, *by_tokens, *bucket;
    int64_t epochs, text_bytes;
    const char *steps;
};

/* Losses of rank 0 go to ret[STEPS + 1]. */
static void run(const struct variant *v, double *ret)
{
    static const int workers[RANKS_MAX] = {0, 1, 2, 3};
    static struct toy toys[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    struct fake_cluster cluster;
    fake_init(&cluster);
    cluster.per_host = v->two_hosts;
    fake_form(&cluster, workers, v->ranks);
    memset(toys, 0, sizeof(toys));
    for (int i = 0; i < v->ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].custom = v->custom;
        toys[i].batch = v->batch;
        toys[i].epochs = v->epochs;
        toys[i].text_bytes = v->text_bytes;
        toy_set(&toys[i], "total_steps", v->steps ? v->steps : "50");
        if (v->accumulation)
            toy_set(&toys[i], "gradient_accumulation_steps", v->accumulation);
        if (v->by_tokens)
            toy_set(&toys[i], "accumulate_by_tokens", v->by_tokens);
        if (v->bucket) {
            toy_set(&toys[i], "bucket_mib", v->bucket);
            toy_set(&toys[i], "first_bucket_mib", v->bucket);
        }
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < v->ranks; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "rank %d: %s\n%s", i, toys[i].error, toys[i].notices);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        CHECK(memcmp(toys[i].losses, toys[0].losses, sizeof(toys[0].losses)) == 0);
    }
    fake_fini(&cluster);
    memcpy(ret, toys[0].losses, (STEPS + 1) * sizeof(*ret));
}

static double worst(const double *a, const double *b)
{
    double most = 0;
    for (int i = 1; i <= STEPS; i++) {
        CHECK((a[i] > 0) == (b[i] > 0));
        most = fmax(most, fabs(a[i] - b[i]));
    }
    return most;
}

static void compare(const char *what, const struct variant *a, const struct variant *b)
{
    double one[STEPS + 1], other[STEPS + 1];
    run(a, one);
    run(b, other);
    double most = worst(one, other);
    printf("%s: losses differ by %.2e at most\n", what, most);
    CHECK(most < TOY_GUESS * toy_bounds(STEPS).losses);
}

static void learning_happens_on_one_rank(void)
{
    double losses[STEPS + 1];
    run(&(struct variant){.ranks = 1}, losses);
    CHECK(losses[1] > 4.5 && losses[STEPS] < 3.2);
}

static void one_two_and_three_ranks_agree(void)
{
    compare("1 and 2 ranks", &(struct variant){.ranks = 1}, &(struct variant){.ranks = 2});
    compare("1 and 3 ranks of unequal shares", &(struct variant){.ranks = 1, .batch = 7},
            &(struct variant){.ranks = 3, .batch = 7});
    compare("1 and 4 ranks with empty shares", &(struct variant){.ranks = 1, .batch = 3},
            &(struct variant){.ranks = 4, .batch = 3});
    compare("1 and 2 ranks over TCP, a bucket per tensor", &(struct variant){.ranks = 1},
            &(struct variant){.ranks = 2, .two_hosts = true, .bucket = "0"});
}

static void the_same_run_twice_gives_the_same_bits(void)
{
    double one[STEPS + 1], other[STEPS + 1], tcp[STEPS + 1];
    run(&(struct variant){.ranks = 2}, one);
    run(&(struct variant){.ranks = 2}, other);
    run(&(struct variant){.ranks = 2, .two_hosts = true}, tcp);
    CHECK(memcmp(one, other, sizeof(one)) == 0);
    CHECK(memcmp(one, tcp, sizeof(one)) == 0);
}

static void accumulated_batches_equal_one_large_batch(void)
{
    /* 120 samples make 20 batches of 6 an epoch, and 40 of 3: windows of two never cross its end.
     */
    struct variant whole = {.ranks = 1, .batch = 6, .text_bytes = 120 * 16 + 1};
    struct variant halves = {
        .ranks = 2, .batch = 3, .accumulation = "2", .text_bytes = 120 * 16 + 1};
    compare("batch 6 and twice 3 on 2 ranks", &whole, &halves);
}

static void tail_windows_are_as_long_as_they_are(void)
{
    /* Five batches an epoch in windows of two: three steps, of 2, 2 and 1 batches. */
    double losses[STEPS + 1];
    struct variant v = {.ranks = 2,
                        .batch = 4,
                        .accumulation = "2",
                        .epochs = 2,
                        .text_bytes = 20 * 16 + 1,
                        .steps = "0"};
    run(&v, losses);
    CHECK(losses[6] > 0 && losses[7] == 0);
    CHECK(losses[3] > 2 && losses[3] < 6);
}

/* 18 samples an epoch: batches of 7, 7 and 4 in one window, or two windows of 5, 5 and of 5, 3. In
 * a program's own passes they count alike unless asked. */
static void batches_count_by_their_tokens_where_asked_for(void)
{
    static const struct variant whole[] = {{.batch = 18}, {.batch = 10}};
    static const struct variant parts[] = {{.batch = 7, .accumulation = "3"},
                                           {.batch = 5, .accumulation = "2"}};
    double one[STEPS + 1], alike[STEPS + 1];
    for (int custom = 0; custom < 2; custom++)
        for (int i = 0; i < 2; i++) {
            struct variant a = whole[i], b = parts[i];
            a.custom = b.custom = custom;
            a.text_bytes = b.text_bytes = 18 * 16 + 1;
            a.ranks = 1;
            b.ranks = 2;
            run(&a, one);
            run(&b, alike);
            CHECK(!custom || worst(one, alike) > 3 * TOY_GUESS * toy_bounds(STEPS).losses);
            b.by_tokens = custom ? "true" : "false";
            compare("a window of unequal batches and one batch", &a, &b);
        }
}

static void a_program_with_its_own_passes_trains_too(void)
{
    compare("custom model on 1 and 2 ranks", &(struct variant){.ranks = 1, .custom = true},
            &(struct variant){.ranks = 2, .custom = true, .accumulation = "1"});
}

static void rank_and_world_from_the_environment_are_enough(void)
{
    static struct toy toys[2];
    struct ranked ranked[2];
    pthread_t threads[2];
    double expected[STEPS + 1];
    int port = ranked_port();
    memset(toys, 0, sizeof(toys));
    for (int i = 0; i < 2; i++) {
        ranked_init(&ranked[i], i, 2, port);
        toys[i].environment = &ranked[i].environment;
        toy_set(&toys[i], "total_steps", "50");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(toys[i].status == 0);
    }
    run(&(struct variant){.ranks = 2}, expected);
    CHECK(memcmp(expected, toys[0].losses, sizeof(expected)) == 0);
}

/* One rank alone means something else: both are told what, before a step is taken. */
struct difference {
    const char *setting, *value; /* of rank 0; NULL: as the others */
    int64_t batch, text_bytes;
    bool other_text, muon;
    const char *words;
};

static void disagree(const struct difference *d)
{
    static struct toy toys[2];
    pthread_t threads[2];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1}, 2);
    memset(toys, 0, sizeof(toys));
    for (int i = 0; i < 2; i++) {
        toys[i].session = fake_session(&cluster, i);
        if (i == 0 && d->setting)
            toy_set(&toys[i], d->setting, d->value);
        if (i || !d->setting || strcmp(d->setting, "total_steps") != 0)
            toy_set(&toys[i], "total_steps", "3");
        toys[i].batch = i ? 0 : d->batch;
        toys[i].text_bytes = i ? 0 : d->text_bytes;
        toys[i].other_text = !i && d->other_text;
        toys[i].muon = !i && d->muon;
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        bool told = !d->words
                        ? toys[i].status == 0
                        : toys[i].status == WK_EMISMATCH && toys[i].exit_code == WK_EXIT_CONFIG &&
                              strstr(toys[i].error, d->words);
        if (!told)
            fprintf(stderr, "rank %d: %d: %s\n", i, toys[i].status, toys[i].error);
        CHECK(told);
    }
    fake_fini(&cluster);
}

static void ranks_that_mean_different_things_are_told(void)
{
    static const struct difference differences[] = {
        {"clip_grad_value", "0.0001",
         .words = "clip_grad_value: it is 0.0001 on rank 0 and 0 on rank 1"},
        {"clip_grad_norm", "2", .words = "clip_grad_norm: it is 2 on rank 0 and 0 on rank 1"},
        {"seed", "7", .words = "seed: it is 7 on rank 0 and 1337 on rank 1"},
        {"gradient_accumulation_steps", "2", .words = "gradient_accumulation_steps: it is 2 on"},
        {"total_steps", "4", .words = "total_steps: it is 4 on rank 0 and 3 on rank 1"},
        {"ddp.hook", "fp16", .words = "ddp.hook: it is fp16 on rank 0 and none on rank 1"},
        {"bucket_mib", "0.5", .words = "bucket_mib: it is 0.5 on rank 0 and 25 on rank 1"},
        {"strategy", "zero1", .words = "strategy: it is zero1 on rank 0 and ddp on rank 1"},
        {.muon = true, .words = "the optimizer: it is muon (rate 0.003, momentum 0.95"},
        {.batch = 8, .words = "samples of 16 (batch 8, epochs 0, seed 1337) on rank 0 and"},
        {.text_bytes = 10000, .words = "loader 1: it is 10000 tokens of"},
        {.other_text = true, .words = "loader 1: it is 20000 tokens of digest"},
        /* Each rank's own business, and the same value written otherwise. */
        {"log_every", "5"},
        {"bucket_mib", "25.0"},
    };
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
        disagree(&differences[i]);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(learning_happens_on_one_rank),
        CHECK_CASE(one_two_and_three_ranks_agree),
        CHECK_CASE(the_same_run_twice_gives_the_same_bits),
        CHECK_CASE(accumulated_batches_equal_one_large_batch),
        CHECK_CASE(tail_windows_are_as_long_as_they_are),
        CHECK_CASE(batches_count_by_their_tokens_where_asked_for),
        CHECK_CASE(a_program_with_its_own_passes_trains_too),
        CHECK_CASE(ranks_that_mean_different_things_are_told),
        CHECK_CASE(rank_and_world_from_the_environment_are_enough),
        {0},
    };
    return check_all(cases, argc, argv);
}
