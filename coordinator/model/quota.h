/* A tenant's quotas, so that its flood cannot take other tenants' places, disk or history. One
 * table has names, defaults and ranges; store, messages and command line derive from it. */
#ifndef MODEL_QUOTA_H
#define MODEL_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* One X per quota: enum word, name, default, least, most, what it counts. */
#define QUOTAS(X)                                                                                  \
    X(WAITING_JOBS, waiting_jobs, 10000, 0, 200000, "jobs that wait for a place")                  \
    X(SPEC_BYTES, spec_bytes, 64 << 20, 0, INT64_C(1) << 40,                                       \
      "bytes of specs of jobs that have "                                                          \
      "not ended")                                                                                 \
    X(SUBMITS_PER_MINUTE, submits_per_minute, 6000, 0, 1000000, "jobs submitted in a minute")      \
    X(PRIORITY, priority, 0, -1000, 1000, "highest priority its members may use")                  \
    X(ENDED_JOBS, ended_jobs, 0, 0, 1000000, "ended jobs kept; 0 is as --keep-jobs")               \
    X(OUTPUT_BYTES, output_bytes, INT64_C(16) << 30, 1 << 20, INT64_C(1) << 50,                    \
      "bytes of output "                                                                           \
      "kept")                                                                                      \
    X(METRICS_BYTES, metrics_bytes, INT64_C(4) << 30, 1 << 20, INT64_C(1) << 50,                   \
      "bytes of metrics kept")                                                                     \
    X(METRICS_MEMORY_BYTES, metrics_memory_bytes, 128 << 20, 1 << 20, INT64_C(1) << 40,            \
      "bytes of metrics that the coordinator has in memory")                                       \
    X(TOKENS, tokens, 100, 0, 10000, "good tokens")                                                \
    X(SECRETS, secrets, 100, 0, 10000, "secrets")

enum quota {
#define X(upper, lower, fallback, least, most, about) QUOTA_##upper,
    QUOTAS(X)
#undef X
        QUOTA_COUNT,
};

struct quotas { /* zeroed memory: all defaults */
    int64_t limit[QUOTA_COUNT];
    bool set[QUOTA_COUNT]; /* false: the default applies */
};

const char *quota_name(enum quota quota);
const char *quota_about(enum quota quota);

/* E_INVALID_ARGUMENT with all names. */
int quota_find(const char *name, enum quota *ret, struct error *err);

int64_t quota_limit(const struct quotas *quotas, enum quota quota);

/* E_INVALID_ARGUMENT if it is out of the quota's range. */
int quota_set(struct quotas *quotas, enum quota quota, int64_t limit, struct error *err);

#endif
