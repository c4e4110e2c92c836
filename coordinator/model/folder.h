/* Folders of checkpoints as text: what names one place is written one way. Nothing looks at a disk:
 * links are not followed (the agent does, where the folder is).
 */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* `path`, relative to the absolute `from`, without `.`, `..`, empty parts and a slash at its end.
 * A path that starts with neither stays relative. E_RESOURCE_EXHAUSTED if it does not fit. */
int folder_clean(const char *from, const char *path, char *ret, size_t size);

/* Is the clean `path` the clean `prefix`, or below it? */
bool folder_below(const char *path, const char *prefix);

#endif
