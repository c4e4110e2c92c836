/* Buckets by the order in which gradients come. */
#include <criterion/criterion.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/ready.h"

enum { N = 7, STRIDE = 112, COUNT = 8 + N * STRIDE };

/* 7 parameters of 100 elements with gaps of 12 between them and of 8 before the first. */
static void fill(struct param *params)
{
    for (int i = 0; i < N; i++)
        params[i] = (struct param){.offset = 8 + (size_t)i * STRIDE, .count = 100};
}

static void check_cover(const struct ready_plan *plan)
{
    unsigned char seen[COUNT] = {0};
    int runs = 0, params = 0;
    for (int b = 0; b < plan->n_buckets; b++) {
        cr_assert_eq(plan->buckets[b].first_run, runs);
        runs += plan->buckets[b].n_runs;
        params += plan->buckets[b].params;
    }
    cr_assert(runs == plan->n_runs && params == N);
    for (int i = 0; i < runs; i++)
        for (size_t j = 0; j < plan->runs[i].count; j++)
            seen[plan->runs[i].offset + j]++;
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(seen[i], 1);
}

Test(ready, every_order_and_size_covers_the_arena_once)
{
    static const int orders[][N] = {
        {6, 5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5, 6}, {3, 0, 6, 1, 5, 2, 4}, {0, 2, 4, 6, 1, 3, 5}};
    struct param params[N];
    struct ready_plan plan;
    fill(params);
    cr_assert_eq(ready_plan_init(&plan, N, NULL), 0);
    for (size_t o = 0; o < 4; o++)
        for (size_t bytes = 0; bytes < 4000; bytes += 100) {
            struct bucket_sizes sizes = {bytes / 2, bytes};
            ready_plan_cut(&plan, params, COUNT, orders[o], &sizes);
            check_cover(&plan);
            /* Buckets follow the order. */
            for (int i = 1; i < N; i++)
                cr_assert(plan.bucket_of[orders[o][i]] >= plan.bucket_of[orders[o][i - 1]]);
        }
    ready_plan_fini(&plan);
}

Test(ready, what_lies_together_is_one_run_and_the_first_bucket_is_small)
{
    struct param params[N];
    struct ready_plan plan;
    struct bucket_sizes sizes = {400, 1200};
    fill(params);
    cr_assert_eq(ready_plan_init(&plan, N, NULL), 0);
    ready_plan_cut(&plan, params, COUNT, (const int[]){6, 5, 4, 3, 2, 1, 0}, &sizes);
    cr_assert(plan.n_buckets == 3 && plan.n_runs == 3);
    cr_assert(plan.buckets[0].params == 1 && plan.buckets[1].params == 3);
    cr_assert(plan.runs[2].offset == 0 && plan.runs[2].count == 8 + 3 * STRIDE);
    /* Those that are ready first are summed first, wherever they lie. */
    ready_plan_cut(&plan, params, COUNT, (const int[]){2, 0, 6, 4, 1, 3, 5}, &sizes);
    cr_assert(plan.n_buckets == 3 && plan.n_runs == 7 && plan.buckets[1].n_runs == 3);
    cr_assert(plan.bucket_of[2] == 0 && plan.bucket_of[4] == 1 && plan.bucket_of[5] == 2);
    ready_plan_fini(&plan);
}
