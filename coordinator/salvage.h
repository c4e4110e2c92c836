/* A store without a coordinator: checks it, and saves what is readable of a damaged one. For the
 * command line. */
#ifndef COORDINATOR_SALVAGE_H
#define COORDINATOR_SALVAGE_H

#include <stddef.h>

#include "common/base/error.h"

/* `path` is a data directory, or a file made by `muster backup`. On success `ret` has a sentence
 * about it. E_DATA_LOSS, or E_FAILED_PRECONDITION for a store older than its directory's mark. */
int salvage_check(const char *path, char *ret, size_t size, struct error *err);

/* Copy everything readable to the new file `to`, for `--restore`. */
int salvage_copy(const char *path, const char *to, char *ret, size_t size, struct error *err);

#endif
