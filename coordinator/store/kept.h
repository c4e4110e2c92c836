/* The bytes of output and metrics kept of each job and tenant. The service reports what it keeps;
 * after a start earlier jobs are measured gradually. Loop thread only. */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/env/env.h"

struct kept;

int kept_new(struct kept **ret, struct error *err);
void kept_free(struct kept *kept); /* NULL is fine */

/* What is kept of the job now; below 0: as before. */
void kept_set(struct kept *kept, const char *tenant, const char *job, int64_t output,
              int64_t metrics);
void kept_forget(struct kept *kept, const char *job);
bool kept_has_job(const struct kept *kept, const char *job);

int64_t kept_output_of(const struct kept *kept, const char *job);
int64_t kept_metrics_of(const struct kept *kept, const char *job);
int64_t kept_output(const struct kept *kept, const char *tenant);
int64_t kept_metrics(const struct kept *kept, const char *tenant);

/* The size of a file of at most `max` bytes. The disk interface has no size, so its end is
 * searched. */
uint64_t kept_measure(const struct disk *disk, const char *path, uint64_t max);

#endif
