/* Digests of store_memory's states, which tests compare with its history. */
#ifndef STORE_STORE_MEMORY_DIGEST_H
#define STORE_STORE_MEMORY_DIGEST_H

#include "coordinator/store/store.h"

struct store_memory;

/* A digest of all nodes, tenants and jobs: the exclusive or of the hashes of their documents. It is
 * stored with the present state, not with its history. list_past at an event must have the digest
 * noted while that event was the newest. False: no commit ended with it. */
uint64_t store_memory_hash(enum store_past_kind kind, const char *name, uint64_t sequence,
                           const char *text); /* 0 for "" */
bool store_memory_digest_at(struct store *store, uint64_t seq, uint64_t *ret);

/* Within a commit: the digest belongs to the newest event. */
void store_memory_note_digest(struct store_memory *self);

#endif
