/* The core's own state: its workers, those that it has forgotten,
 * and its slots that are GPUs. Only for the files of
 * agent/core. */
#ifndef AGENT_STATE_H
#define AGENT_STATE_H

#include "agent/core/slot.h"
#include "agent/core/worker.h"

struct agent_core {
    struct agent_worker *workers; /* by job, then uid */
    int count;
    bool registered;
    bool left;                                          /* fenced: no decisions any more */
    bool stopping_all;                                  /* nothing new starts */
    struct worker_key tombstones[AGENT_TOMBSTONES_MAX]; /* a ring */
    struct agent_slot slots[AGENT_SLOTS_WATCHED_MAX];
    int slots_count;
    uint64_t forgotten; /* since the start; the next one is at this place of the ring */
};

struct agent_worker *agent_worker_find(const struct agent_core *core, const struct worker_key *key);
/* NULL beyond AGENT_WORKERS_MAX, or if memory is out. */
struct agent_worker *agent_worker_add(struct agent_core *core, const struct worker_key *key);

/* Forget it if no report about it is needed any more. It never starts again. */
void agent_worker_forget_if_done(struct agent_core *core, struct agent_worker *worker,
                                 struct agent_actions *ret);
bool agent_worker_is_forgotten(const struct agent_core *core, const struct worker_key *key);

#endif
