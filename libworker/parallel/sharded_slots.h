/* Units of a sharded model that take turns in a device's memory (device/slots.h): the arenas of
 * FSDP, where the host does not read them and passes enter blocks. Which units share memory follows
 * from when they are used (unit_slots.h), so passes that enter blocks in their order wait for
 * nothing and map nothing.
 *
 *      arena                      a unit takes its turn        and leaves it
 *      parameters                 before its gather            at its release
 *      gradients in float         as backward enters its       once their sum is taken, or they
 *                                 block, filled with zeros     were added to narrow ones
 *      narrow gradients           as they become final         once their sum is taken
 *      parameters in float        at initial values, exports   after that, and frees memory
 *      beside narrow ones
 *
 * A program may use units in another order. Another unit may have the memory then. It is
 * released, and gathered again when it is entered. If a pass is within its block, or if gradients
 * are in it, it keeps the memory. Then the unit gets memory of its own, and the host waits for the
 * queue once.
 *
 * Part of sharded.h. All of it does nothing for other arenas.
 */
#ifndef PARALLEL_SHARDED_SLOTS_H
#define PARALLEL_SHARDED_SLOTS_H

#include "libworker/parallel/sharded.h"
#include "libworker/parallel/unit_slots.h"

/* Units as passes enter them, without sizes. */
struct unit_walk sharded_walk(const struct sharded *s);

/* Whether units take turns at all, and whether gathered parameters do: not with keep_gathered. */
bool sharded_takes_turns(const struct sharded *s);
bool sharded_params_turn(const struct sharded *s);

/* Let the plan's units begin where parts of such memory may. Before any arena. */
void sharded_spread_plan(struct sharded *s);

/* The arenas, here or by pages_place. The plan is there. WK_ENOMEM. */
int sharded_place_params(struct sharded *s);
int sharded_place_grads(struct sharded *s);
int sharded_place_low_params(struct sharded *s);
int sharded_place_low_grads(struct sharded *s);

/* The unit to release before this one is gathered: it has the memory. -1: none, or it is in use. */
int sharded_to_release(const struct sharded *s, int unit);

/* A turn of a unit in the arena that gathers write, in the float arena for reading or initial
 * values, and for gradients, which are zeros then. WK_ENOMEM, or the device's failure. */
int sharded_take_gathered(struct sharded *s, int unit);
int sharded_take_floats(struct sharded *s, int unit);
int sharded_take_grads(struct sharded *s, int unit);
int sharded_take_low_grads(struct sharded *s, int unit);

/* The queue's next event is when the unit's parameters are no longer used: for every unit that may
 * have its memory next. */
void sharded_note_released(struct sharded *s, int unit);

/* Free what reading everything needed, after the release of all units; what initial values and
 * reading masters needed. The device's failure. */
int sharded_rest_gathered(struct sharded *s);
int sharded_rest_floats(struct sharded *s);

/* An abandoned pass's gradients are lost. */
void sharded_leave_grads(struct sharded *s);

/* Where the sum of a unit's gradients over its row is, in float. */
float *sharded_sum_of(const struct sharded *s, int unit);

#endif
