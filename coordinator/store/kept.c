#include "coordinator/store/kept.h"

#include <stdlib.h>

#include "common/base/map.h"

struct sum {
    int64_t output, metrics;
    struct sum *all; /* of a job: its tenant's */
};

struct kept {
    struct strmap jobs, tenants; /* -> struct sum */
};

int kept_new(struct kept **ret, struct error *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

void kept_free(struct kept *kept)
{
    if (!kept)
        return;
    strmap_free_values(&kept->jobs);
    strmap_free_values(&kept->tenants);
    free(kept);
}

static struct sum *sum_of(struct strmap *sums, const char *name)
{
    struct sum *sum = strmap_get(sums, name);
    if (sum)
        return sum;
    sum = calloc(1, sizeof(*sum));
    if (!sum || strmap_set(sums, name, sum, NULL)) {
        free(sum);
        return NULL;
    }
    return sum;
}

/* Without memory for it a job is not counted: what it keeps has limits of its own. */
void kept_set(struct kept *kept, const char *tenant, const char *job, int64_t output,
              int64_t metrics)
{
    struct sum *own = sum_of(&kept->jobs, job), *all = sum_of(&kept->tenants, tenant);
    if (!own || !all)
        return;
    if (output >= 0) {
        all->output += output - own->output;
        own->output = output;
    }
    if (metrics >= 0) {
        all->metrics += metrics - own->metrics;
        own->metrics = metrics;
    }
    own->all = all;
}

void kept_forget(struct kept *kept, const char *job)
{
    struct sum *own = strmap_remove(&kept->jobs, job);
    if (own && own->all) {
        own->all->output -= own->output;
        own->all->metrics -= own->metrics;
    }
    free(own);
}

bool kept_has_job(const struct kept *kept, const char *job)
{
    return strmap_get(&kept->jobs, job);
}

static struct sum find_sum(const struct strmap *sums, const char *name)
{
    const struct sum *sum = strmap_get(sums, name);
    return sum ? *sum : (struct sum){0};
}

int64_t kept_output_of(const struct kept *kept, const char *job)
{
    return find_sum(&kept->jobs, job).output;
}

int64_t kept_metrics_of(const struct kept *kept, const char *job)
{
    return find_sum(&kept->jobs, job).metrics;
}

int64_t kept_output(const struct kept *kept, const char *tenant)
{
    return find_sum(&kept->tenants, tenant).output;
}

int64_t kept_metrics(const struct kept *kept, const char *tenant)
{
    return find_sum(&kept->tenants, tenant).metrics;
}

uint64_t kept_measure(const struct disk *disk, const char *path, uint64_t max)
{
    uint64_t low = 0, high = max;
    while (low < high) {
        uint64_t at = low + (high - low) / 2;
        char byte;
        size_t got = 0;
        bool there = disk->read_range(disk->self, path, at, &byte, 1, &got, NULL) == 0 && got == 1;
        *(there ? &low : &high) = there ? at + 1 : at;
    }
    return low;
}
