#include <stdlib.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/ready.h"

int ready_plan_init(struct ready_plan *plan, int n_params, struct error *err)
{
    size_t n = (size_t)n_params;
    *plan = (struct ready_plan){.n_params = n_params};
    plan->bucket_of = calloc(n, sizeof(*plan->bucket_of));
    plan->buckets = calloc(n, sizeof(*plan->buckets));
    plan->runs = calloc(n, sizeof(*plan->runs));
    if (plan->bucket_of && plan->buckets && plan->runs)
        return 0;
    ready_plan_fini(plan);
    return error_set(err, WK_ENOMEM, "no memory for gradient buckets");
}

void ready_plan_fini(struct ready_plan *plan)
{
    free(plan->bucket_of);
    free(plan->buckets);
    free(plan->runs);
    *plan = (struct ready_plan){0};
}

static size_t begin_of(const struct param *params, int index)
{
    return index == 0 ? 0 : params[index].offset;
}

static size_t end_of(const struct param *params, int n_params, size_t count, int index)
{
    return index + 1 == n_params ? count : params[index + 1].offset;
}

static void find_runs(struct ready_plan *plan, const struct param *params, size_t count, int bucket)
{
    struct ready_bucket *b = &plan->buckets[bucket];
    b->first_run = plan->n_runs;
    for (int i = 0; i < plan->n_params; i++) {
        if (plan->bucket_of[i] != bucket)
            continue;
        size_t begin = begin_of(params, i), end = end_of(params, plan->n_params, count, i);
        struct ready_run *last = &plan->runs[plan->n_runs - 1];
        if (plan->n_runs > b->first_run && last->offset + last->count == begin)
            last->count = end - last->offset;
        else
            plan->runs[plan->n_runs++] = (struct ready_run){begin, end - begin};
    }
    b->n_runs = plan->n_runs - b->first_run;
}

void ready_plan_cut(struct ready_plan *plan, const struct param *params, size_t count,
                    const int *order, const struct bucket_sizes *sizes)
{
    size_t filled = 0;
    plan->n_buckets = plan->n_runs = 0;
    plan->buckets[0] = (struct ready_bucket){0};
    for (int i = 0; i < plan->n_params; i++) {
        int index = order[i];
        plan->bucket_of[index] = plan->n_buckets;
        plan->buckets[plan->n_buckets].params++;
        filled += end_of(params, plan->n_params, count, index) - begin_of(params, index);
        size_t limit = plan->n_buckets == 0 ? sizes->first_bytes : sizes->bytes;
        if (filled * sizeof(float) < limit && i + 1 < plan->n_params)
            continue;
        filled = 0;
        if (++plan->n_buckets < plan->n_params)
            plan->buckets[plan->n_buckets] = (struct ready_bucket){0};
    }
    for (int i = 0; i < plan->n_buckets; i++)
        find_runs(plan, params, count, i);
}
