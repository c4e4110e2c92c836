/* "did you mean …?": the hint for an unknown name. Pure; any thread. */
#ifndef BASE_MEANT_H
#define BASE_MEANT_H

#include <stdbool.h>

#include "common/base/error.h"

/* Set the hint of `err` (may be NULL) to the nearest of `names` (NULL-terminated), if one is near
 * (str_nearest). false: none is near, and the hint is unchanged, so the caller may list the names.
 */
bool meant_hint(struct error *err, const char *text, const char *const *names);

/* The same if the caller has found the nearest name; NULL: none. */
bool meant_name(struct error *err, const char *nearest);

#endif
