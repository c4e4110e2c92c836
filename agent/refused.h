/* Starts refused while a step's actions were performed. Each becomes an event after that step. A
 * list, newest first; the owner frees the entries it removes. Loop thread only. */
#ifndef AGENT_REFUSED_H
#define AGENT_REFUSED_H

#include "agent/core/launch.h"
#include "common/base/error.h"

struct refused_start {
    struct worker_key key;
    char why[AGENT_START_ERROR_MAX + 1];
    int code; /* of agent_start_code */
    struct refused_start *next;
};

void refused_add(struct refused_start **list, const struct worker_key *key,
                 const struct error *err);
struct refused_start *refused_pop(struct refused_start **list); /* NULL = empty */

#endif
