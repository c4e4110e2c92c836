/* "did you mean …?": the next step after a name that is none of those there are. Pure; any thread.
 */
#ifndef BASE_MEANT_H
#define BASE_MEANT_H

#include <stdbool.h>

#include "common/base/error.h"

/* The hint of `err` (may be NULL) becomes the nearest of `names` (NULL-terminated), if one is near
 * (str_nearest). false: none is, and the hint is as it was: the caller may say where they are. */
bool meant_hint(struct error *err, const char *text, const char *const *names);

/* The same where the caller has found the nearest; NULL: none. */
bool meant_name(struct error *err, const char *nearest);

#endif
