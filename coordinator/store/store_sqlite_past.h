/* The history of store_sqlite: past states, and folding what is too old. Only for store_sqlite. */
#ifndef STORE_STORE_SQLITE_PAST_H
#define STORE_STORE_SQLITE_PAST_H

#include "coordinator/store/store_sqlite_state.h"

int store_sqlite_list_past(struct store *, const struct store_past_query *, store_past_fn,
                           void *arg, struct error *);
int store_sqlite_past_range(struct store *, int64_t wall_ms, struct store_past_range *,
                            struct error *);
/* Within a transaction: fold changes beyond `kept_bytes` into the oldest state that can be rebuilt,
 * a bounded part at a time. self->folds_on: the next commit must continue. */
int store_sqlite_fold_past(struct store_sqlite *self, int64_t kept_bytes, struct error *err);

#endif
