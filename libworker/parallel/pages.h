/* Large zeroed memory whose parts can be given back and come back as zeros. Addresses stay: what is
 * given back costs nothing but address space until it is touched again. So a model's pointers into
 * its arenas never change, however much of them is in memory. Shared pages lie in an arena of the
 * communicator (worker/comm.h): collectives work on them in place. In place; owned by the struct
 * around it; any thread, as ordinary memory.
 */
#ifndef PARALLEL_PAGES_H
#define PARALLEL_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct wk_arena;

struct pages {
    float *data; /* [count], page-aligned; NULL for count 0 */
    size_t count;
    struct wk_arena *arena; /* NULL: private memory */
};

int pages_init(struct pages *pages, size_t count, bool shared); /* WK_ENOMEM */

/* Private, with a file in folder `dir` as home (tensor/mapped.h). Not to be dropped. */
int pages_map(struct pages *pages, size_t count, const char *dir, struct error *err);
/* Takes zeroed memory. No other rank looks at shared pages any more. */
void pages_fini(struct pages *pages);

/* Elements [first, first + count) are zero from now on; the whole pages inside are given back. */
void pages_drop(const struct pages *pages, size_t first, size_t count);

/* Bytes of the range that are in memory now, in whole pages. */
size_t pages_resident(const struct pages *pages, size_t first, size_t count);

#endif
