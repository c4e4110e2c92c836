/* Wire types <-> the agent's types: only this file knows both. Messages are built in an arena (or
 * point into the core's data) and live as long as both. Loop thread. */
#ifndef LINK_WIRE_H
#define LINK_WIRE_H

#include <stddef.h>

#include "agent/core/step.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "proto/node.pb-c.h"
#include "proto/worker.pb-c.h"

/* With more ended workers than this in one report, their last output is left out, because it is
 * large. */
enum { WIRE_LAST_OUTPUTS_MAX = 256 };

/* A new assignment with one reference. `shared`: the data shared by its job's workers.
 * E_INVALID_ARGUMENT for a message that no coordinator sends. */
int wire_assignment(const Muster__Assignment *message, const Muster__JobShared *shared,
                    struct assignment **ret, struct error *err);

/* The status of all workers. E_RESOURCE_EXHAUSTED if the arena is full. */
int wire_workers(const struct agent_core *core, struct arena *arena, Muster__WorkerStatus ***ret,
                 size_t *ret_count);

/* The membership of an assignment; NULL if it has none or the arena is full. */
Muster__Membership *wire_membership(const struct assignment *assignment, struct arena *arena);

/* job and uid of a worker's call; E_INVALID_ARGUMENT if the job id is too long. */
int wire_key(const char *job, uint64_t uid, struct worker_key *ret, struct error *err);

#endif
