#include "coordinator/store/store_memory_digest.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "coordinator/store/store_memory_state.h"

uint64_t store_memory_hash(enum store_past_kind kind, const char *name, uint64_t sequence,
                           const char *text)
{
    uint64_t hash = UINT64_C(1469598103934665603) ^ (uint64_t)kind; /* FNV-1a */
    const char *const parts[] = {name, text};
    if (!text || !*text)
        return 0;
    for (int i = 0; i < 2; i++)
        for (const char *c = parts[i]; *c; c++)
            hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (hash ^ sequence) * UINT64_C(1099511628211);
}

bool store_memory_digest_at(struct store *store, uint64_t seq, uint64_t *ret)
{
    uint64_t *digest = map_get(&self_of(store)->digests, seq);
    if (digest)
        *ret = *digest;
    return digest;
}

void store_memory_note_digest(struct store_memory *self)
{
    uint64_t *digest = malloc(sizeof(*digest));
    void *old = NULL;
    insist(digest);
    *digest = self->digest;
    insist(!map_set(&self->digests, self->last_event, digest, &old));
    free(old);
}
