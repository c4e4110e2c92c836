/* Large zeroed memory with parts that can be released and are zero afterwards. Addresses stay: a
 * released part costs only address space until it is used again. A model's pointers into its arenas
 * therefore never change, however much of them is in memory. Shared pages are in an arena of the
 * communicator (worker/comm.h), so collectives work on them in place. Owned by the struct around
 * it; any thread, like ordinary memory. */
#ifndef PARALLEL_PAGES_H
#define PARALLEL_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct queue;
struct slots;
struct wk_arena;

struct pages {
    float *data; /* [count], page-aligned; NULL for count 0 */
    size_t count;
    struct wk_arena *arena; /* NULL: private memory */
    struct queue *queue;    /* NULL: pages of the host */
    struct slots *slots;    /* NULL: its parts do not take turns; owned */
};

int pages_init(struct pages *pages, size_t count, bool shared); /* WK_ENOMEM */

/* Which collectives use pages: none; the device's own; also the communicator's, in place. */
enum pages_use { PAGES_PRIVATE, PAGES_OF_WIRES, PAGES_SHARED };

/* Pages of this queue's device: those of pages_init where the host reads its memory; else device
 * memory that is never given back, in which the queue writes the zeros. `queue` is borrowed. */
int pages_place(struct pages *pages, struct queue *queue, size_t count, enum pages_use use);

/* Device memory whose parts take turns (device/slots.h), which now belong to `pages`. */
void pages_place_slots(struct pages *pages, struct queue *queue, size_t count, struct slots *slots);

/* Private, with a file in folder `dir` as home (tensor/mapped.h). Not to be dropped. */
int pages_map(struct pages *pages, size_t count, const char *dir, struct error *err);
/* Zeroed memory is allowed. No other rank may still read shared pages. */
void pages_fini(struct pages *pages);

/* Elements [first, first + count) are zero from now on; the whole pages inside are given back.
 * Where parts take turns: all elements, each part is left. */
void pages_drop(const struct pages *pages, size_t first, size_t count);

/* Bytes of the range that are in memory now, in whole pages. */
size_t pages_resident(const struct pages *pages, size_t first, size_t count);

#endif
