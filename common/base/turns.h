/* Whose work is next, where many ask for more than there is time for: deficit round robin with new
 * flows first, as fq_codel does it for packets (RFC 8290). Work is kept by whose it is; each of
 * them has TURNS_QUANTUM_MS a round, and what it took beyond that it owes the next rounds. Who had
 * nothing waiting comes before those who always have, so a question now and then waits for the work
 * at hand and for other newcomers only.
 *
 *     turns_add(whose, item) ─► fresh ──(its quantum is used, or it has no more)──► old ─► gone
 *                                 └──────────── turns_next: first, then ─────────────┘
 *
 * An item is a link in its owner's struct: list_remove takes it back at any time. No clock is read
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
    TURNS_DEBT_MAX_MS = 64, /* more is forgiven, or one stall of the machine would bar its owner */
};

struct turns_share { /* of one owner */
    struct list link;
    struct list items;
    int64_t left_ms;
    uint64_t whose;
};

struct turns {
    struct list fresh, old;
    struct map shares;         /* whose -> struct turns_share, as long as it is in a list */
    struct turns_share common; /* of those for whom there was no memory */
    struct turns_share *now;   /* whose item was given last */
};

void turns_init(struct turns *turns);
void turns_fini(struct turns *turns); /* items that wait are taken out of their lists */

/* `item` is in no list. */
void turns_add(struct turns *turns, uint64_t whose, struct list *item);
/* Taken out of its list; NULL if nothing waits. */
struct list *turns_next(struct turns *turns);
/* So long the item given last took. Before the next turns_next. */
void turns_charge(struct turns *turns, int64_t ms);

/* True only if nothing waits; false while owners are remembered, too. */
static inline bool turns_empty(const struct turns *turns)
{
    return list_empty(&turns->fresh) && list_empty(&turns->old);
}

#endif
