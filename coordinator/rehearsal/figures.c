#include "coordinator/rehearsal/figures.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

enum { SHORT_RUN_MS = 10000 }; /* Feitelson's bounded slowdown: shorter runs count as this */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct sample {
    double *values;
    int count;
};

static double mean(const struct sample *sample)
{
    double sum = 0;
    for (int i = 0; i < sample->count; i++)
        sum += sample->values[i];
    return sample->count ? sum / sample->count : 0;
}

/* Nearest rank. */
static double quantile(struct sample *sample, int percent)
{
    if (!sample->count)
        return 0;
    qsort(sample->values, (size_t)sample->count, sizeof(*sample->values), by_value);
    int rank = (sample->count * percent + 99) / 100;
    return sample->values[rank > 0 ? rank - 1 : 0];
}

static struct rehearsal_tenant *tenant_of(struct rehearsal *rehearsal, const char *name)
{
    for (int i = 0; i < rehearsal->tenants_count; i++)
        if (strcmp(rehearsal->tenants[i].name, name) == 0)
            return &rehearsal->tenants[i];
    return NULL;
}

static void add_job(struct rehearsal *rehearsal, const struct rehearsal_job *job,
                    struct sample *waits, struct sample *slowdowns, struct rehearsal_figures *ret)
{
    if (job->end == REHEARSAL_REFUSED)
        ret->refused++;
    if (job->end == REHEARSAL_FAILED)
        ret->failed++;
    ret->preemptions += job->preemptions;
    ret->resizes += job->resizes;
    if (job->end != REHEARSAL_DONE)
        return;
    int64_t wait_ms = job->start_ms - job->submit_ms, run_ms = job->end_ms - job->start_ms;
    int64_t bounded_ms = run_ms > SHORT_RUN_MS ? run_ms : SHORT_RUN_MS;
    double slowdown = (double)(wait_ms + run_ms) / (double)bounded_ms;
    struct rehearsal_tenant *tenant = tenant_of(rehearsal, job->tenant);
    ret->done++;
    waits->values[waits->count++] = (double)wait_ms;
    slowdowns->values[slowdowns->count++] = slowdown > 1 ? slowdown : 1;
    insist(tenant);
    tenant->jobs++;
    tenant->wait_ms += wait_ms;
}

/* R. Jain et al., "A quantitative measure of fairness", 1984. */
static double jain(const struct rehearsal *rehearsal)
{
    double sum = 0, squares = 0;
    int count = 0;
    for (int i = 0; i < rehearsal->tenants_count; i++) {
        const struct rehearsal_tenant *tenant = &rehearsal->tenants[i];
        double use = (double)tenant->slot_ms / tenant->weight;
        if (!tenant->slot_ms)
            continue;
        sum += use;
        squares += use * use;
        count++;
    }
    return count ? sum * sum / (count * squares) : 1;
}

static void share_out(struct rehearsal *rehearsal, int64_t busy_slot_ms)
{
    double weights = 0;
    for (int i = 0; i < rehearsal->tenants_count; i++)
        if (rehearsal->tenants[i].slot_ms)
            weights += rehearsal->tenants[i].weight;
    for (int i = 0; i < rehearsal->tenants_count; i++) {
        struct rehearsal_tenant *tenant = &rehearsal->tenants[i];
        tenant->share = busy_slot_ms ? (double)tenant->slot_ms / (double)busy_slot_ms : 0;
        tenant->owed = tenant->slot_ms && weights > 0 ? tenant->weight / weights : 0;
    }
}

void figures_compute(struct rehearsal *rehearsal, int64_t busy_slot_ms,
                     struct rehearsal_figures *ret)
{
    size_t count = (size_t)rehearsal->jobs_count + 1;
    struct sample waits = {.values = calloc(count, sizeof(double))};
    struct sample slowdowns = {.values = calloc(count, sizeof(double))};
    int64_t first_ms = INT64_MAX, last_ms = 0;
    insist(waits.values && slowdowns.values);
    *ret = (struct rehearsal_figures){0};
    for (int i = 0; i < rehearsal->nodes_count; i++)
        ret->slots += rehearsal->nodes[i].slots;
    for (int i = 0; i < rehearsal->jobs_count; i++) {
        const struct rehearsal_job *job = &rehearsal->jobs[i];
        add_job(rehearsal, job, &waits, &slowdowns, ret);
        first_ms = job->submit_ms < first_ms ? job->submit_ms : first_ms;
        last_ms = job->end_ms > last_ms ? job->end_ms : last_ms;
    }
    ret->makespan_ms = last_ms > first_ms ? last_ms - first_ms : 0;
    if (ret->makespan_ms && ret->slots)
        ret->utilisation = (double)busy_slot_ms / ((double)ret->makespan_ms * ret->slots);
    ret->wait_mean_ms = (int64_t)mean(&waits);
    ret->wait_median_ms = (int64_t)quantile(&waits, 50);
    ret->wait_p95_ms = (int64_t)quantile(&waits, 95);
    ret->slowdown_mean = mean(&slowdowns);
    ret->slowdown_p95 = quantile(&slowdowns, 95);
    share_out(rehearsal, busy_slot_ms);
    ret->fairness = jain(rehearsal);
    free(waits.values);
    free(slowdowns.values);
}
