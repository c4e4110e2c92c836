/* Model to wire: messages that show what is. They are built in an arena and borrow the model's
 * strings, so they are good until the next step only. Pure.
 */
#ifndef API_RPC_WIRE_H
#define API_RPC_WIRE_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "coordinator/core/action.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"
#include "proto/client.pb-c.h"
#include "proto/job.pb-c.h"

/* Arena allocations of the size of an answer; beyond it the answer is RESOURCE_EXHAUSTED. All
 * functions give NULL when the arena is full. */
enum {
    WIRE_ARENA_MAX_BYTES = 64 << 20,
    WIRE_LIST_MAX_BYTES = 2 << 20, /* of jobs in one list: a spec may have 256 KiB */
};

/* Room for that many pointers, of a repeated field. */
static inline void *wire_pointers(struct arena *arena, size_t count)
{
    return arena_array(arena, count, sizeof(void *));
}

/* Its text holds names of jobs between marks (reason.h): scope.c takes them out for who reads it,
 * wire_show_all (false without memory) for those who see all. */
Muster__Reason *wire_reason(struct arena *arena, const struct reason *reason);
bool wire_show_all(struct arena *arena, Muster__Reason *reason);
Muster__Checkpoint *wire_checkpoint(struct arena *arena, const struct checkpoint *checkpoint);
Muster__Job *wire_job(struct arena *arena, const struct job *job, Muster__JobSpec *spec,
                      bool workers);
/* `ms` has LEDGER_COUNT entries. */
Muster__Ledger *wire_ledger(struct arena *arena, const int64_t *ms, uint64_t rework_steps);
Muster__Node *wire_node(struct arena *arena, const struct node *node);
/* How many slots each job uses on these, which are in the order of their names: in one pass over
 * all workers, where a look at each node's jobs would go through large gangs once for every node.
 * Before scope_node. */
void wire_uses(const struct cluster *cluster, Muster__Node *const *nodes, size_t count);
Muster__Event *wire_event(struct arena *arena, const struct store_event *event); /* copies */

#endif
