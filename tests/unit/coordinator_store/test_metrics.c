#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env/disk_os.h"
#include "coordinator/store/metrics.h"

static char dir[64];
static struct disk disk;
static struct metrics *metrics;
static const struct metrics_job job_one = {.id = "j1", .tenant = "red"};

static void reopen(void)
{
    metrics_free(metrics);
    cr_assert_eq(metrics_new(&disk, dir, &metrics, NULL), 0);
}

static void init(void)
{
    snprintf(dir, sizeof(dir), "/tmp/muster-metrics-XXXXXX");
    cr_assert(mkdtemp(dir));
    disk = disk_os();
    reopen();
}

static void fini(void)
{
    metrics_free(metrics);
    cr_assert_eq(disk.remove_tree(disk.self, dir, NULL), 0);
}

TestSuite(metrics, .init = init, .fini = fini);

static void add(const char *name, uint64_t generation, uint64_t step, double value)
{
    struct metric_sample sample = {.name = name,
                                   .generation = generation,
                                   .step = step,
                                   .wall_ms = (int64_t)step * 10,
                                   .value = value};
    struct error err = {0};
    cr_assert_eq(metrics_append(metrics, &job_one, &sample, 1, &err), 0, "%s", err.text);
}

static struct arena arena;

static struct metric_series *read_all(struct metrics_query query, int *ret_count)
{
    struct metric_series *series;
    struct error err = {0};
    arena_fini(&arena);
    arena_init(&arena, 64 << 20);
    cr_assert_eq(metrics_read(metrics, &job_one, &query, &arena, &series, ret_count, &err), 0, "%s",
                 err.text);
    return series;
}

Test(metrics, series_survive_a_restart)
{
    int count;
    add("loss", 1, 1, 4.5);
    add("loss", 1, 2, 0.1 + 0.2);
    add("tokens_per_second", 1, 2, 1000);
    add("bad name!", 1, 2, 1);
    reopen();
    struct metric_series *series = read_all((struct metrics_query){0}, &count);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(series[0].name, "loss");
    cr_assert_eq(series[0].count, 2);
    cr_assert(series[0].points[1].value == 0.1 + 0.2 && series[0].points[1].wall_ms == 20);
    add("loss", 1, 2, 9); /* a repeat */
    add("loss", 1, 3, 3.5);
    series = read_all((struct metrics_query){.name = "loss", .after_step = 1}, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(series[0].count, 2);
    cr_assert(series[0].points[0].value == 0.1 + 0.2 && series[0].points[1].step == 3);
}

Test(metrics, going_on_from_a_checkpoint_replaces_what_was_lost)
{
    int count;
    for (uint64_t step = 1; step <= 10; step++)
        add("loss", 1, step, (double)step);
    for (uint64_t step = 6; step <= 8; step++)
        add("loss", 2, step, 100 + (double)step);
    add("loss", 1, 11, 11); /* a stale worker of the generation before */
    for (int round = 0; round < 2; round++) {
        struct metric_series *series = read_all((struct metrics_query){0}, &count);
        cr_assert_eq(series[0].count, 8);
        cr_assert(series[0].points[4].value == 5 && series[0].points[5].value == 106);
        cr_assert_eq(series[0].points[7].step, 8u);
        reopen();
    }
}

/* The first rank leaves, and its node's last report comes after the first of another node. */
Test(metrics, late_samples_of_the_generation_before_fill_the_steps_up_to_the_newer_one)
{
    int count;
    add("loss", 2, 1, 1);
    add("loss", 2, 2, 2);
    add("loss", 3, 6, 6);
    add("loss", 3, 7, 7);
    add("loss", 1, 3, -1); /* of a stale worker */
    add("loss", 2, 2, -1); /* a repeat */
    for (uint64_t step = 3; step <= 8; step++)
        add("loss", 2, step, step < 6 ? (double)step : -1);
    add("loss", 2, 4, -1); /* a repeat */
    add("loss", 3, 8, 8);
    for (int round = 0; round < 2; round++) {
        struct metric_series *series = read_all((struct metrics_query){0}, &count);
        cr_assert_eq(series[0].count, 8);
        for (int i = 0; i < 8; i++)
            cr_expect(series[0].points[i].step == (uint64_t)i + 1 &&
                          series[0].points[i].value == i + 1,
                      "step %d: %f", i + 1, series[0].points[i].value);
        reopen();
    }
}

Test(metrics, a_whole_generation_before_the_first_sample_may_be_late)
{
    int count;
    add("loss", 2, 3, 3);
    add("loss", 1, 1, 1);
    add("loss", 1, 2, 2);
    add("loss", 1, 3, -1);
    struct metric_series *series = read_all((struct metrics_query){0}, &count);
    cr_assert_eq(series[0].count, 3);
    cr_expect(series[0].points[0].value == 1 && series[0].points[2].value == 3);
}

Test(metrics, late_samples_of_a_thinned_series_keep_it_even)
{
    int count;
    for (uint64_t step = 1; step <= METRICS_POINTS_MAX + 1; step++)
        add("loss", 1, step, (double)step);
    add("loss", 2, METRICS_POINTS_MAX + 7, 0);
    for (uint64_t step = METRICS_POINTS_MAX + 2; step <= METRICS_POINTS_MAX + 6; step++)
        add("loss", 1, step, (double)step);
    struct metric_series *series =
        read_all((struct metrics_query){.max_points = METRICS_POINTS_MAX}, &count);
    cr_assert_geq(series[0].count, METRICS_POINTS_MAX / 2);
    for (int i = 1; i < series[0].count; i++)
        cr_expect_eq(series[0].points[i].step - series[0].points[i - 1].step, 2u, "point %d", i);
}

Test(metrics, long_series_are_thinned_evenly_and_keep_their_ends)
{
    enum { STEPS = 50000 };
    static struct metric_sample samples[STEPS];
    for (int i = 0; i < STEPS; i++)
        samples[i] = (struct metric_sample){
            .name = "loss", .generation = 1, .step = (uint64_t)i + 1, .value = i};
    cr_assert_eq(metrics_append(metrics, &job_one, samples, STEPS, NULL), 0);
    int count;
    struct metric_series *series = read_all((struct metrics_query){.max_points = 100}, &count);
    cr_assert_eq(count, 1);
    cr_assert_leq(series[0].count, 100);
    cr_assert_geq(series[0].count, 90);
    cr_assert_eq(series[0].points[0].step, 1u);
    cr_assert_eq(series[0].points[series[0].count - 1].step, (uint64_t)STEPS);
    for (int i = 1; i < series[0].count; i++) {
        uint64_t gap = series[0].points[i].step - series[0].points[i - 1].step;
        cr_assert(gap > 0 && gap < 2 * STEPS / 90, "gap of %llu", (unsigned long long)gap);
    }
}

/* A run that tells more than a file holds, and then a restart. */
Test(metrics, a_file_that_is_full_goes_on_thinned)
{
    enum { EACH = 50000, ROUNDS = 16 };
    static struct metric_sample samples[EACH];
    char name[METRIC_NAME_MAX + 1];
    memset(name, 'n', METRIC_NAME_MAX);
    name[METRIC_NAME_MAX] = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct error err = {0};
        for (int i = 0; i < EACH; i++) {
            uint64_t step = (uint64_t)(round * EACH + i) + 1;
            samples[i] = (struct metric_sample){.name = name,
                                                .generation = 3,
                                                .step = step,
                                                .wall_ms = 1700000000000 + (int64_t)step,
                                                .value = (double)step};
        }
        cr_assert_eq(metrics_append(metrics, &job_one, samples, EACH, &err), 0, "%s", err.text);
    }
    reopen();
    for (uint64_t more = 1; more <= 2; more++) { /* what is read goes on as it was */
        int count;
        uint64_t last = (uint64_t)EACH * ROUNDS + more - 1;
        struct metric_series *series = read_all((struct metrics_query){.max_points = 200}, &count);
        cr_assert_eq(count, 1);
        cr_assert_eq(series[0].points[0].step, 1u);
        cr_assert_eq(series[0].points[series[0].count - 1].step, last, "it ends at %llu",
                     (unsigned long long)series[0].points[series[0].count - 1].step);
        for (int i = 1; i < series[0].count; i++) {
            uint64_t gap = series[0].points[i].step - series[0].points[i - 1].step;
            cr_assert(gap > 0 && gap < 3 * last / 200, "gap of %llu", (unsigned long long)gap);
            cr_assert_eq(series[0].points[i].value, (double)series[0].points[i].step);
        }
        add(name, 3, last, -1); /* a repeat */
        add(name, 3, last + 1, (double)last + 1);
        reopen();
    }
}

Test(metrics, nan_and_infinity_are_numbers_too)
{
    int count;
    add("loss", 1, 1, NAN);
    add("loss", 1, 2, INFINITY);
    reopen();
    struct metric_series *series = read_all((struct metrics_query){0}, &count);
    cr_assert(isnan(series[0].points[0].value) && isinf(series[0].points[1].value));
}

/* Enough samples that the series of one job take about 200 KiB. */
static void fill(const struct metrics_job *of, int series_count)
{
    enum { STEPS = 4096 };
    static struct metric_sample samples[STEPS];
    for (int series = 0; series < series_count; series++) {
        char name[32];
        struct error err = {0};
        snprintf(name, sizeof(name), "series_%d", series);
        for (int i = 0; i < STEPS; i++)
            samples[i] = (struct metric_sample){
                .name = name, .generation = 1, .step = (uint64_t)i + 1, .value = i};
        cr_assert_eq(metrics_append(metrics, of, samples, STEPS, &err), 0, "%s", err.text);
    }
}

static int points_of(const struct metrics_job *of, const char *name)
{
    struct metric_series *series;
    struct metrics_query query = {.name = name, .max_points = METRICS_POINTS_MAX};
    struct error err = {0};
    int count;
    arena_fini(&arena);
    arena_init(&arena, 64 << 20);
    cr_assert_eq(metrics_read(metrics, of, &query, &arena, &series, &count, &err), 0, "%s",
                 err.text);
    return count == 1 ? series[0].count : -1;
}

static struct metrics_job job_of(const char *tenant, int number, char id[16])
{
    snprintf(id, 16, "j%d%c", number, tenant[0]);
    return (struct metrics_job){.id = id, .tenant = tenant, .memory_bytes = 1 << 20};
}

Test(metrics, a_tenant_beyond_its_memory_gives_up_its_own_and_loses_no_number)
{
    enum { JOBS = 20, SERIES = 2 };
    char id[16];
    struct metrics_job blue = job_of("blue", 1, id);
    char other[16];
    fill(&blue, SERIES);
    int64_t blues = metrics_memory(metrics, "blue");
    cr_assert_gt(blues, SERIES * 4096 * (int64_t)sizeof(struct metric_point) - 1);
    for (int i = 0; i < JOBS; i++) {
        struct metrics_job red = job_of("red", i, other);
        fill(&red, SERIES);
        cr_expect_leq(metrics_memory(metrics, "red"), 1 << 20, "after job %d", i);
    }
    cr_expect_eq(metrics_memory(metrics, "blue"), blues, "another tenant's never");
    cr_expect_eq(metrics_memory(metrics, NULL), blues + metrics_memory(metrics, "red"));
    for (int round = 0; round < 2; round++) /* from memory, or read again */
        for (int i = 0; i < JOBS; i++) {
            struct metrics_job red = job_of("red", i, other);
            cr_expect_eq(points_of(&red, "series_1"), 4096, "job %d", i);
            cr_expect_leq(metrics_memory(metrics, "red"), 1 << 20);
        }
    cr_expect_eq(points_of(&blue, "series_0"), 4096);
}

/* What is left in memory of a series tells a repeat from news. */
Test(metrics, a_job_whose_points_were_given_up_goes_on)
{
    char id[16], other[16];
    struct metrics_job first = job_of("red", 1, id);
    fill(&first, 1);
    int64_t size = metrics_size(metrics, first.id);
    for (int i = 2; i < 20; i++) {
        struct metrics_job red = job_of("red", i, other);
        fill(&red, 2);
    }
    struct metric_sample more[] = {
        {.name = "series_0", .generation = 1, .step = 4096, .value = -1}, /* a repeat */
        {.name = "series_0", .generation = 1, .step = 4097, .value = 7},
        {.name = "new", .generation = 1, .step = 1, .value = 8},
        {.name = "series_0", .generation = 2, .step = 4000, .value = 9}, /* from a checkpoint */
    };
    int64_t before = metrics_memory(metrics, "red");
    cr_assert_eq(metrics_append(metrics, &first, more, 4, NULL), 0);
    cr_expect_lt(metrics_memory(metrics, "red"), before + 8192, "its points are not read for that");
    cr_expect_lt(metrics_size(metrics, first.id), size + 200);
    cr_expect_eq(points_of(&first, "series_0"), 4000);
    cr_expect_eq(points_of(&first, "new"), 1);
    reopen();
    cr_expect_eq(points_of(&first, "series_0"), 4000);
}

Test(metrics, small_jobs_take_little_memory)
{
    char id[16];
    for (int i = 0; i < 200; i++) {
        struct metrics_job red = job_of("red", i, id);
        struct metric_sample sample = {.name = "loss", .generation = 1, .step = 1, .value = 1};
        cr_assert_eq(metrics_append(metrics, &red, &sample, 1, NULL), 0);
    }
    cr_expect_leq(metrics_memory(metrics, "red"), 1 << 20);
    cr_expect_geq(metrics_memory(metrics, "red"), 200 * 1000, "and none was given up");
}
