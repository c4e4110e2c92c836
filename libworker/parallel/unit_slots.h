/* Which units of a model take turns in one piece of memory (device/slots.h): pure arithmetic.
 *
 * A strategy with hooks for blocks knows when each unit's parameters and gradients are in use:
 *
 *      parameters    from the gather, `prefetch` blocks ahead, to the end of the block's pass. Some
 *                    stay until the backward pass (unit_stays)
 *      gradients     from the block's backward pass until their sum is taken; up to
 *                    SHARDED_REDUCES_MAX sums are on their way. Those of unit 0 may grow during all
 *                    of it: a tied head
 *
 * Two units share a slot if they are never in use at the same time. A slot is as large as its
 * largest unit. Slots are found from the largest unit on, each unit in the first slot that it may
 * share. The estimate adds up the same slots (estimate/share.h).
 *
 * Owned by the caller; any thread.
 */
#ifndef PARALLEL_UNIT_SLOTS_H
#define PARALLEL_UNIT_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

/* A model's units as its passes enter them. */
struct unit_walk {
    const size_t *sizes; /* [n_units] */
    const int *order;    /* [n_units]: as a forward pass enters them; NULL: 0, 1, 2 … */
    int n_units;
    int n_trained; /* the first units, which alone have gradients */
    int prefetch;  /* units gathered ahead */
    bool keeps;    /* units stay from forward to backward */
};

struct unit_slots {
    int n_units, n_slots;
    int *slot_of;  /* [n_units] */
    size_t *sizes; /* [n_slots] */
};

int unit_at(const struct unit_walk *walk, int place); /* which is entered as number `place` */
int unit_place(const struct unit_walk *walk, int unit);

/* Block 0 may serve a tied head inside the last block's brackets, so it stays for the whole step.
 * The last ones are needed again at once. */
bool unit_stays(const struct unit_walk *walk, int unit);

/* Slots for the parameters of all units. WK_ENOMEM. */
int unit_slots_params(const struct unit_walk *walk, struct unit_slots *ret);

/* Slots for the gradients of trained units. Up to `ahead` of them are on their way beside the unit
 * at work. `early`: unit 0 is in use from the beginning on. WK_ENOMEM. */
int unit_slots_grads(const struct unit_walk *walk, int ahead, bool early, struct unit_slots *ret);

/* One slot for all units. WK_ENOMEM. */
int unit_slots_one(const struct unit_walk *walk, struct unit_slots *ret);
void unit_slots_fini(struct unit_slots *slots); /* zeroed memory is allowed */

size_t unit_slots_total(const struct unit_slots *slots);

#endif
