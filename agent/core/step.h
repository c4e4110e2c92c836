/* The agent's decisions: pure. It compares the desired workers (assignments of the coordinator)
 * with the actual ones, and the difference becomes actions. It touches no clock, file, process or
 * socket; one thread. worker.h has the states of a worker.
 *
 * A stop escalates: SIGTERM, after the assignment's grace SIGKILL to the tree, repeated every
 * AGENT_KILL_AGAIN_MS until the launcher reports the end. A worker that the launcher reports as
 * stuck is stopping until then, without a time limit, and keeps its slots.
 */
#ifndef AGENT_STEP_H
#define AGENT_STEP_H

#include <stdbool.h>

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/worker.h"
#include "common/base/error.h"

struct agent_core;

struct agent_core *agent_core_new(void); /* NULL if memory is out */
void agent_core_free(struct agent_core *core);

/* Consume one event and append the resulting actions. */
void agent_step(struct agent_core *core, const struct agent_event *event,
                struct agent_actions *ret);

/* All workers, ordered by job and uid; NULL after the last. */
const struct agent_worker *agent_core_first(const struct agent_core *core);
const struct agent_worker *agent_core_find(const struct agent_core *core,
                                           const struct worker_key *key);
bool agent_core_registered(const struct agent_core *core);

/* The worker of this token, which may be from any generation. E_UNAUTHENTICATED; E_UNAVAILABLE
 * while there may be workers that no coordinator has mentioned yet. */
int agent_core_identify(const struct agent_core *core, const char *token, struct worker_key *ret,
                        struct error *err);

/* 0 if the bearer of `token` may call for this worker. Its tokens are compared in constant time.
 *
 * A token of an earlier generation is valid only with `old_ok`, for calls in which its bearer
 * learns of the new one: Hello, Join, Watch, Progress, LostPeers, a finished checkpoint. For other
 * calls it is E_ABORTED. E_NOT_FOUND, E_UNAUTHENTICATED; E_UNAVAILABLE for a worker that no
 * coordinator has mentioned yet: try again.
 */
int agent_core_authorize(const struct agent_core *core, const struct worker_key *key,
                         const char *token, bool old_ok, struct error *err);

/* Check the invariants between steps; aborts if one is broken. */
void agent_core_check(const struct agent_core *core);

#endif
