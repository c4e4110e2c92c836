/* Device memory that grows, for work that runs in order: one piece serves all of it. Earlier pieces
 * are kept to the end, since work that has not ended may use them. Owned by the struct around it;
 * the device's thread. */
#ifndef PARALLEL_SCRATCH_H
#define PARALLEL_SCRATCH_H

#include <stddef.h>

#include "common/base/error.h"

struct device;

struct scratch; /* a list, the largest piece first; NULL is an empty one */

/* *ret[at least `bytes`], of undefined content. WK_ENOMEM. */
int scratch_reserve(struct device *device, struct scratch **list, size_t bytes, void **ret,
                    struct error *err);
void scratch_free(struct device *device, struct scratch **list); /* all work has ended */

#endif
