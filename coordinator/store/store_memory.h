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

/* store_memory_copy: a backup, the committed content in a store of its own. The other makes a
 * restored store of one (a new store, with the skips of store.h). The caller closes it. */
struct store *store_memory_copy(struct store *store);
struct store *store_memory_restore(struct store *backup, int64_t wall_ms);

/* A digest of all nodes, tenants and jobs: the exclusive or of the hashes of their documents. It is
 * stored with the present state, not with its history. list_past at an event must have the digest
 * noted while that event was the newest. False: no commit ended with it. */
uint64_t store_memory_hash(enum store_past_kind kind, const char *name, uint64_t sequence,
                           const char *text); /* 0 for "" */
bool store_memory_digest_at(struct store *store, uint64_t seq, uint64_t *ret);

#endif
