/* Checkpoint folders as text: equal places have equal text. The disk is not read, so links are not
 * followed (the agent does that, where the folder is). */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Write `path`, relative to the absolute `from`, without `.`, `..`, empty parts and final slash. If
 * neither is absolute the result stays relative. E_RESOURCE_EXHAUSTED if it does not fit. */
int folder_clean(const char *from, const char *path, char *ret, size_t size);

/* True if the clean `path` is the clean `prefix`, or below it. */
bool folder_below(const char *path, const char *prefix);

#endif
