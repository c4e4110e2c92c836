/* Parameters of a sharded model: from the shards to where the model reads them. Part of sharded.h.
 */
#ifndef PARALLEL_SHARDED_PARAMS_H
#define PARALLEL_SHARDED_PARAMS_H

#include "libworker/parallel/sharded.h"

/* Start gathering a unit, unless it is there; wait for it; give its memory back. await returns the
 * pass's first failure. */
void sharded_start_gather(struct sharded *s, int unit);
int sharded_await_gather(struct sharded *s, int unit);
void sharded_release(struct sharded *s, int unit);
void sharded_release_all(struct sharded *s); /* FSDP's; else nothing */

/* Slots of the table (strategy_ops.h). ZeRO gathers the new values, at a step's spread those of
 * trained units; FSDP releases the old ones. */
void sharded_use(void *self, struct wk_comm *comm);
int sharded_gather(void *self, struct wk_comm *comm);
int sharded_gather_own(void *self, struct wk_comm *comm);
int sharded_refresh(void *self, struct wk_comm *comm);
int sharded_spread(void *self, struct wk_comm *comm);

#endif
