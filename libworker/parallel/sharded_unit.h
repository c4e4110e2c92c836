/* Shared by the files of a sharded model: sharded.c makes it, sharded_params.c gathers parameters,
 * sharded_grads.c reduces gradients, sharded_low.c does both in narrow types. No other file
 * includes this. */
#ifndef PARALLEL_SHARDED_UNIT_H
#define PARALLEL_SHARDED_UNIT_H

#include "libworker/parallel/pages.h"
#include "libworker/parallel/sharded.h"

/* Of a unit: its number of elements with the padding; the offset of this rank's row in an arena;
 * and the row in a float arena. */
size_t sharded_elements(const struct sharded *s, int unit);
size_t sharded_row_at(const struct sharded *s, int unit);
float *sharded_row(const struct sharded *s, float *arena, int unit);

/* Release a unit's pages to the system, up to the possible start of the next unit. */
void sharded_drop(const struct sharded *s, const struct pages *arena, int unit);

/* A collective failed with `code`: the first one is what the pass ends with. */
void sharded_note(struct sharded *s, int code);

/* This rank's gradients of a unit are final. */
void sharded_unit_done(struct sharded *s, int unit);

#endif
