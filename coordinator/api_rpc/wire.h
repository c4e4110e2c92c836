/* Model to wire: messages about the present state. They are built in an arena and borrow the
 * model's strings, so they are valid only until the next step. Pure. */
#ifndef API_RPC_WIRE_H
#define API_RPC_WIRE_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "coordinator/core/action.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"
#include "proto/client.pb-c.h"
#include "proto/job.pb-c.h"

/* Limits of an answer's arena; a larger answer is RESOURCE_EXHAUSTED. All functions return NULL
 * when the arena is full. */
enum {
    WIRE_ARENA_MAX_BYTES = 64 << 20,
    WIRE_LIST_MAX_BYTES = 2 << 20, /* for jobs in one list: a spec may have 256 KiB */
};

/* Its text contains names of jobs between marks (reason.h). scope.c removes them for the reader;
 * wire_show_all (false if memory is out) for readers that see all. */
Muster__Reason *wire_reason(struct arena *arena, const struct reason *reason);
bool wire_show_all(struct arena *arena, Muster__Reason *reason);
Muster__Checkpoint *wire_checkpoint(struct arena *arena, const struct checkpoint *checkpoint);
Muster__Job *wire_job(struct arena *arena, const struct job *job, Muster__JobSpec *spec,
                      bool workers);
Muster__Worker__State wire_worker_state(const struct job *job, const struct worker *worker);
/* `ms` has LEDGER_COUNT entries. */
Muster__Ledger *wire_ledger(struct arena *arena, const int64_t *ms, uint64_t rework_steps);
Muster__Node *wire_node(struct arena *arena, const struct node *node);
/* Set the slots that each job uses on these nodes, which are sorted by name. One pass over all
 * workers does this; asking each node's jobs would read a large gang once per node. Call it before
 * scope_node. */
void wire_uses(const struct cluster *cluster, Muster__Node *const *nodes, size_t count);
Muster__Event *wire_event(struct arena *arena, const struct store_event *event); /* copies */

#endif
