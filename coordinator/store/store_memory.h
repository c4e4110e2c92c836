/* The store contract without a disk, for simulation and tests: what was committed survives
 * coordinator_free (a crash of the coordinator) as long as the store itself lives. Keeps the same
 * documents as store_sqlite, so that nothing survives here that would not survive there.
 */
#ifndef STORE_STORE_MEMORY_H
#define STORE_STORE_MEMORY_H

#include "coordinator/store/store.h"

int store_memory_new(struct store **ret, struct error *err);

/* Fault for tests: the next `count` commits fail with `code` (E_RESOURCE_EXHAUSTED: full disk). */
void store_memory_fail_commits(struct store *store, int count, int code);
/* The same for loads. */
void store_memory_fail_loads(struct store *store, int count, int code);

#endif
