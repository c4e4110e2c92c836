/* What the files of a sharded model share: sharded.c makes it, sharded_params.c brings parameters
 * to the model, sharded_grads.c brings gradients back, sharded_low.c both in narrow types. No other
 * file includes this.
 */
#ifndef PARALLEL_SHARDED_UNIT_H
#define PARALLEL_SHARDED_UNIT_H

#include "libworker/parallel/pages.h"
#include "libworker/parallel/sharded.h"

/* Of a unit: all its elements, with the padding; where in an arena this rank's row of them begins,
 * and the row in a float one. */
size_t sharded_elements(const struct sharded *s, int unit);
size_t sharded_row_at(const struct sharded *s, int unit);
float *sharded_row(const struct sharded *s, float *arena, int unit);

/* Give a unit's pages back to the system, up to where the next unit may begin. */
void sharded_drop(const struct sharded *s, const struct pages *arena, int unit);

/* A collective failed with `code`: the first one is what the pass ends with. */
void sharded_note(struct sharded *s, int code);

/* This rank's gradients of a unit are final. */
void sharded_unit_done(struct sharded *s, int unit);

#endif
