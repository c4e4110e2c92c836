/* Metrics of training programs (loss, tokens_per_second, ...). Per job and name there is a series
 * by step in memory, thinned evenly to METRICS_POINTS_MAX, and an append-only file
 * DATA/metrics/<job>.csv. The file is read again after a restart, and when the series was removed
 * from memory.
 *
 * Memory is counted by tenant. A tenant above its limit loses the points of its own least used
 * jobs. If all together are above the limit, the tenant with the most loses some. A sample of a
 * newer generation at or before the last step means that the job continued from a checkpoint:
 * points from that step on are replaced. A repeat within a generation is ignored. A sample of the
 * generation before may be late, if its step is before the first of the newer one.
 *
 * Owned by the service; loop thread only.
 */
#ifndef STORE_METRICS_H
#define STORE_METRICS_H

#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/name.h"
#include "common/env/env.h"
#include "coordinator/store/metric.h"

enum {
    METRICS_SERIES_MAX = 128,           /* per job */
    METRICS_FILE_MAX_BYTES = 64 << 20,  /* then it is rewritten, thinned like memory */
    METRICS_JOBS_MAX = 256,             /* of a tenant in memory; others are read when asked for */
    METRICS_MEMORY_MAX_BYTES = 1 << 30, /* of all tenants */
    METRICS_READ_DEFAULT_POINTS = 1000,
};

struct metrics;

struct metrics_job {
    const char *id, *tenant;
    int64_t file_bytes;   /* at most, on disk; 0, or more: METRICS_FILE_MAX_BYTES */
    int64_t memory_bytes; /* that its tenant may have; 0 = any number */
};

struct metric_series {
    const char *name;
    struct metric_point *points;
    int count;
};

struct metrics_query {
    const char *name;    /* NULL or "" = all, unless `names` is set */
    const char *names;   /* separated by commas */
    uint64_t after_step; /* 0 = from the start */
    uint32_t max_points; /* per series; 0 = METRICS_READ_DEFAULT_POINTS */
};

int metrics_new(const struct disk *disk, const char *data_dir, struct metrics **ret,
                struct error *err);
void metrics_free(struct metrics *metrics);

/* Samples with an invalid name (not [A-Za-z0-9_./-], 1..METRIC_NAME_MAX) are dropped. */
int metrics_append(struct metrics *metrics, const struct metrics_job *of_job,
                   const struct metric_sample *samples, int samples_count, struct error *err);

/* Bytes that a tenant has in memory; NULL: all tenants. */
int64_t metrics_memory(const struct metrics *metrics, const char *tenant);

/* Bytes that are kept of a job on disk. */
int64_t metrics_size(const struct metrics *metrics, const char *id);

/* All of a job's series go. */
int metrics_forget(struct metrics *metrics, const char *id, struct error *err);

/* Series by name, in `arena`. The first and the last point are always among those given. */
int metrics_read(struct metrics *metrics, const struct metrics_job *of_job,
                 const struct metrics_query *query, struct arena *arena, struct metric_series **ret,
                 int *ret_count, struct error *err);

#endif
