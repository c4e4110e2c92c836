/* Which work used which bytes of one memory, and whether new work is ordered after it. Pure; in
 * place, owned by the memory.
 *
 * A clock has, per queue, the number of the latest work that is known to have run before. Work
 * `at` of queue q is before whatever has a clock with at[q] >= at. History keeps, per run of bytes,
 * the last write and the last read of each queue: if these are ordered before new work, then so are
 * all earlier ones.
 */
#ifndef REHEARSAL_HISTORY_H
#define REHEARSAL_HISTORY_H

#include <stdbool.h>

#include "libworker/device/device.h"

struct clock {
    uint64_t at[DEVICE_QUEUES_MAX];
};

void clock_join(struct clock *clock, const struct clock *other);

struct touch {
    uint64_t at; /* number of the work in its queue, from 1; 0: none */
    const char *name;
};

struct cell;

struct history {
    struct cell *cells; /* in order; each ends where the next begins */
    int count, capacity;
    size_t bytes;
};

struct access {
    int queue;
    struct touch touch;
    const struct clock *clock; /* of the work itself */
    size_t first, end;         /* bytes; first < end */
    enum device_use use;
};

enum conflict_kind { CONFLICT_NONE, CONFLICT_UNORDERED, CONFLICT_UNWRITTEN };

struct conflict {
    enum conflict_kind kind;
    size_t first, end; /* bytes */
    int queue;         /* of the earlier work, if unordered */
    struct touch touch;
    bool wrote;
};

/* `written`: the content is defined from the beginning. history_fini accepts zeroed memory. */
void history_init(struct history *history, size_t bytes, bool written);
void history_fini(struct history *history);

/* Add an access. Returns the first conflict of it with earlier ones. */
struct conflict history_add(struct history *history, const struct access *access);

/* The first access that is not before `clock`. */
struct conflict history_pending(const struct history *history, const struct clock *clock);

#endif
