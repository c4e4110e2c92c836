/* Gradients of a sharded model: from where the model adds to them to the shards. Part of sharded.h.
 */
#ifndef PARALLEL_SHARDED_GRADS_H
#define PARALLEL_SHARDED_GRADS_H

#include "libworker/parallel/hook.h"
#include "libworker/parallel/sharded.h"

/* This rank's gradients of a unit are final. */
void sharded_unit_done(struct sharded *s, int unit);

/* Slots of the table (strategy_ops.h): a pass, */
void sharded_scaled(void *self, float factor, double scale);
void sharded_rescale(void *self, float change);
void sharded_begin(void *self, struct wk_comm *comm, bool last);
void sharded_ready(void *self, int index);
bool sharded_changed(const void *self);
void sharded_flush(void *self);
int sharded_finish(void *self);
void sharded_drain(void *self);
enum sums sharded_checked(const void *self);

/* and a window's sums. */
int sharded_squares(void *self);
int sharded_first_nonfinite(void *self, int *ret_index);
void sharded_clamp(void *self, double most);
void sharded_clear(void *self);

#endif
