/* Schedules work of many owners when there is more than time allows: deficit round robin with new
 * flows first, as fq_codel does for packets (RFC 8290). Each owner has TURNS_QUANTUM_MS per round.
 * Time used beyond that is subtracted from its next rounds. An owner without waiting work is served
 * before owners that always have some. A rare request therefore waits only for the work in progress
 * and for other new owners.
 *
 *       turns_add(whose, item) ─► fresh ──(its quantum is used, or it has no more)──► old ─► gone
 *                                   └──────────── turns_next: first, then ─────────────┘
 *
 * An item is a link in its owner's struct: list_remove withdraws it at any time. No clock is read
 * here; one thread at a time.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/map.h"

enum {
    TURNS_QUANTUM_MS = 2,
    TURNS_DEBT_MAX_MS = 64, /* more is forgiven, because one pause of the machine would otherwise
                             * bar its owner */
};

struct turns_share { /* of one owner */
    struct list link;
    struct list items;
    int64_t left_ms;
    uint64_t whose;
};

struct turns {
    struct list fresh, old;
    struct map shares;         /* owner -> struct turns_share, while it is in a list */
    struct turns_share common; /* of owners for which memory was out */
    struct turns_share *now;   /* owner of the last returned item */
};

void turns_init(struct turns *turns);
void turns_fini(struct turns *turns); /* waiting items are removed from their lists */

/* `item` is in no list. */
void turns_add(struct turns *turns, uint64_t whose, struct list *item);
/* Removed from its list; NULL if no item waits. */
struct list *turns_next(struct turns *turns);
/* The last returned item used this much time. Call it before the next turns_next. */
void turns_charge(struct turns *turns, int64_t ms);

/* True only if no item waits and no owner is remembered. */
static inline bool turns_empty(const struct turns *turns)
{
    return list_empty(&turns->fresh) && list_empty(&turns->old);
}

#endif
