#include "agent/refused.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/str.h"

void refused_add(struct refused_start **list, const struct worker_key *key, const struct error *err)
{
    struct refused_start *refused = calloc(1, sizeof(*refused));
    insist(refused);
    refused->key = *key;
    (void)str_copy(refused->why, sizeof(refused->why), err->text);
    refused->code = agent_start_code(err->code);
    refused->next = *list;
    *list = refused;
}

struct refused_start *refused_pop(struct refused_start **list)
{
    struct refused_start *refused = *list;
    if (refused)
        *list = refused->next;
    return refused;
}
