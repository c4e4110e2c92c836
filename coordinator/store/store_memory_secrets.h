/* Secrets of tenants in store_memory. By "<tenant>/<name>": a copy of the sealed
 * value. Only for its files. */
#ifndef STORE_STORE_MEMORY_SECRETS_H
#define STORE_STORE_MEMORY_SECRETS_H

#include "coordinator/store/store_memory_state.h"

/* A copy is freed with free; apply takes ownership of its argument. */
struct store_secret *store_memory_secret_copy(const struct store_secret *from);
int store_memory_apply_secret(struct store_memory *self, struct store_secret *secret, bool gone);
void store_memory_copy_secrets(const struct store_memory *from, struct store_memory *to);
void store_memory_free_secrets(struct store_memory *self);
int store_memory_list_secrets(struct store *, store_secret_fn, void *arg, struct error *);

#endif
