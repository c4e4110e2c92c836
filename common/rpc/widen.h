/* Converts a job spec from the written form to the schema's: shared by spec.c and training.c.
 * Private to rpc/. One thread. */
#ifndef RPC_WIDEN_H
#define RPC_WIDEN_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/tree.h"

struct widen {
    struct arena *arena;
    struct error *err;
    struct tree *training; /* made by training.c; else NULL */
};

/* E_RESOURCE_EXHAUSTED. */
int widen_no_memory(const struct widen *w);

/* Set a key with the place of `origin`, so that errors about it still name a line. `value` NULL
 * means that it could not be made. E_RESOURCE_EXHAUSTED. */
int widen_put(const struct widen *w, struct tree *map, const char *name, struct tree *value,
              const struct tree *origin);

#endif
