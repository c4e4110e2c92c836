/* How many bytes of output and metrics are kept of each job and tenant. The service tells what it
 * keeps; after a start jobs of before are told once, by and by. Loop thread only.
 */
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
bool kept_knows(const struct kept *kept, const char *job);

int64_t kept_output_of(const struct kept *kept, const char *job);
int64_t kept_metrics_of(const struct kept *kept, const char *job);
int64_t kept_output(const struct kept *kept, const char *tenant);
int64_t kept_metrics(const struct kept *kept, const char *tenant);

/* The size of a file of at most `max` bytes, which the disk does not tell: its end is searched. */
uint64_t kept_measure(const struct disk *disk, const char *path, uint64_t max);

#endif
