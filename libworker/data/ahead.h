/* Shares that are read before they are dealt. Reading depends on the position alone, so a share
 * that is dealt later is the same. One that is cut in another way is not found. Part of a loader.
 * One thread. */
#ifndef DATA_AHEAD_H
#define DATA_AHEAD_H

#include <stdbool.h>

#include "libworker/data/share.h"

void ahead_forget(struct wk_loader *loader); /* keeps the memory */
void ahead_fini(struct wk_loader *loader);

/* Read these samples; the arrays are the loader's until the next call. WK_ENOMEM, or the error of
 * the program's read. */
int ahead_read(struct wk_loader *loader, const struct share_range *range,
               struct loader_arrays **ret_arrays, struct error *err);

/* True if these samples were read: they are in loader->arrays now. */
bool ahead_take(struct wk_loader *loader, const struct share_range *range);

#endif
