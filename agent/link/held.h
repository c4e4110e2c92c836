/* Data that all workers of a job share, from the coordinator. It is kept from the answer that has
 * it until the job has left this node, so that it is sent once. One per link; loop thread. */
#ifndef LINK_HELD_H
#define LINK_HELD_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/map.h"
#include "proto/node.pb-c.h"

struct held {           /* zeroed memory is empty */
    struct strmap jobs; /* id -> Muster__JobShared * with all parts received so far */
};

void held_fini(struct held *held); /* it is empty afterwards */

/* Keep the data of an answer. E_RESOURCE_EXHAUSTED if memory is out: request all of it again. */
int held_merge(struct held *held, const Muster__NodePollAnswer *answer, struct error *err);
/* Forget the jobs that a complete answer does not name. */
void held_keep_only(struct held *held, const Muster__NodePollAnswer *answer);

const Muster__JobShared *held_find(const struct held *held, const char *job); /* NULL = not kept */

/* List in the request what is kept; built in the arena. */
int held_fill(const struct held *held, struct arena *arena, Muster__NodePollRequest *request);

#endif
