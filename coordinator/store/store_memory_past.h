/* The history of store_memory: every change is kept. Only for its files. */
#ifndef STORE_STORE_MEMORY_PAST_H
#define STORE_STORE_MEMORY_PAST_H

#include "coordinator/store/store_memory_state.h"

/* Within a commit; `old` is NULL where there was nothing */
void store_memory_change_job(struct store_memory *self, uint64_t sequence,
                             const struct document *old, const struct document *now);
void store_memory_change_named(struct store_memory *self, enum store_past_kind kind,
                               const char *name, const char *old, char *text);
char *store_memory_tenant_text(const struct store_tenant *tenant); /* freed by the caller */
void store_memory_past_fini(struct store_memory *self);
int store_memory_list_past(struct store *, const struct store_past_query *, store_past_fn,
                           void *arg, struct error *);
int store_memory_past_range(struct store *, int64_t wall_ms, struct store_past_range *,
                            struct error *);

#endif
