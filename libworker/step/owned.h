/* The objects that belong to a context, and are freed with it (worker/owned.h). Owned by the
 * program's thread. */
#ifndef STEP_OWNED_H
#define STEP_OWNED_H

#include <stdbool.h>

#include <worker/worker.h>

#include "common/base/list.h"

struct owned {
    struct wk_object list[WK_OWNED_MAX]; /* in the order they were made */
    int count;
    struct list loaders; /* made in this context, owned or not */
};

/* Free them, once nothing uses them; loaders that remain forget the context. */
void owned_free(struct wk_context *ctx);
void owned_free_object(struct wk_object object);

/* True if another context owns it, which is not NULL. */
bool owned_elsewhere(const struct wk_context *ctx, struct wk_object object);

#endif
