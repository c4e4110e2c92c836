/* A unit of a sharded model: where it is, and the phase of its gradients. Part of sharded.h. */
#ifndef PARALLEL_SHARDED_UNIT_H
#define PARALLEL_SHARDED_UNIT_H

#include "libworker/parallel/sharded.h"

/* True if gradients stay where they are until the window's last pass: ZERO1. */
bool sharded_keeps_grads(const struct sharded *s);

/* True if a unit's parameters are in memory only while they are used: FSDP. */
bool sharded_frees_params(const struct sharded *s);

/* Whether collectives go that way. All units share the replica's communicator. */
bool sharded_is(const struct sharded *s, enum wire_way way);

/* Elements of the largest of the first `units` units. */
size_t sharded_most(const struct sharded *s, int units);

/* Of a unit: its number of elements with the padding; the offset of this rank's row in an arena;
 * and the row in a float arena. */
size_t sharded_elements(const struct sharded *s, int unit);
size_t sharded_row_at(const struct sharded *s, int unit);
float *sharded_row(const struct sharded *s, float *arena, int unit);

/* This rank's row of the unit's narrow parameters, which may be apart from them. */
uint16_t *sharded_low_row(const struct sharded *s, int unit);

/* Which element of the model this rank's row of the unit begins with. */
size_t sharded_row_first(const struct sharded *s, int unit);

/* Where all of a unit in float is on the device: its place in the arena, or with masters on the
 * host one that serves every unit in turn. */
float *sharded_floats(const struct sharded *s, int unit);

/* Release a unit's pages to the system, up to the possible start of the next unit; or end its turn
 * (sharded_slots.h). */
void sharded_drop(const struct sharded *s, const struct pages *arena, int unit);

/* A pass begins: one that failed did not leave its blocks. */
void sharded_reenter(struct sharded *s);

/* The one place that changes a unit's phase. */
void sharded_unit_set(struct sharded_unit *unit, enum unit_phase phase);

/* A collective failed with `code`: the first one is what the pass ends with. The sentence is that
 * of whichever communicator failed, or "". */
void sharded_note(struct sharded *s, int code);
const char *sharded_sentence(const void *self);

#endif
