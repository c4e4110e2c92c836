/* What the workers of a job have in common, as the coordinator told it: held from the answer that
 * brought it until the job is gone from this node, so that it is told once. One per link; loop
 * thread.
 */
#ifndef LINK_HELD_H
#define LINK_HELD_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/map.h"
#include "proto/node.pb-c.h"

struct held {           /* zeroed memory holds nothing */
    struct strmap jobs; /* id -> Muster__JobShared * with all parts told so far */
};

void held_fini(struct held *held); /* then it holds nothing */

/* Keep what an answer brings. E_RESOURCE_EXHAUSTED without memory: ask for all again. */
int held_take(struct held *held, const Muster__NodePollAnswer *answer, struct error *err);
/* Forget the jobs that a complete answer does not name. */
void held_keep_only(struct held *held, const Muster__NodePollAnswer *answer);

const Muster__JobShared *held_find(const struct held *held, const char *job); /* NULL = not held */

/* Say what is held; built in the arena. */
int held_fill(const struct held *held, struct arena *arena, Muster__NodePollRequest *request);

#endif
