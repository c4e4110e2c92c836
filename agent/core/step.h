/* The agent's decisions: pure. What should run (assignments of the coordinator) is held against
 * what does (workers), and the difference becomes actions. No clock, file, process or socket is
 * touched here; one thread.
 *
 *     its slots are free: START      Join answered
 *   (new) ───────────► starting ───────────────────► joined ◄─┐ newer generation joined
 *     │                   │  │ stop or absent          │  └───┘
 *     │ stop before it    │  └──────────► stopping ◄───┘
 *     │ ever ran          │ exit, or        │ exit
 *     └──────────────►  exited ◄────────────┘
 *                         │ no longer desired, and its output shipped
 *                         ▼
 *                     forgotten (never started again: uids are not reused)
 *
 * Stop escalates: SIGTERM, after the grace of its assignment SIGKILL to the tree, repeated each
 * AGENT_KILL_AGAIN_MS until the launcher says it has ended. A worker that the launcher calls stuck
 * is stopping until then, however long that takes, and keeps its slots.
 */
#ifndef AGENT_STEP_H
#define AGENT_STEP_H

#include <stdbool.h>

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "common/base/error.h"

enum {
    AGENT_WORKERS_MAX = 4096,       /* known at once, exited ones included */
    AGENT_LOST_RANKS_MAX = 1024,    /* remembered per worker and generation */
    AGENT_TOMBSTONES_MAX = 1024,    /* forgotten workers that must not start again */
    AGENT_GRACE_DEFAULT_MS = 10000, /* when no assignment ever said */
    AGENT_KILL_AGAIN_MS = 2000,
    AGENT_ANSWER_MARGIN_MS = 200, /* parked calls are answered so long before their deadline */
};

#define AGENT_WORKER_STATES(X)                                                                     \
    X(STARTING, starting) X(JOINED, joined) X(STOPPING, stopping) X(EXITED, exited)

enum agent_worker_state {
#define X(upper, lower) AGENT_WORKER_##upper,
    AGENT_WORKER_STATES(X)
#undef X
};

const char *agent_worker_state_name(enum agent_worker_state state);

struct agent_parked { /* a long poll of a worker; request 0 = none */
    uint64_t request;
    uint64_t generation;
    int64_t deadline_ms;
};

struct agent_worker { /* read only outside the core */
    struct worker_key key;
    enum agent_worker_state state;
    struct assignment *assignment; /* newest, held; NULL when adopted and not yet desired */
    bool desired;                  /* named by the last DESIRED */
    bool process;                  /* the launcher has it: it will say EXITED once */
    bool
        waits; /* STARTING, but for its slots: somebody whom nobody wants any more has yet to end */
    bool shipped; /* with EXITED: its output is with the coordinator */
    int64_t pid;
    struct worker_memory memory; /* aware, generation joined, step */
    uint64_t joining;
    char endpoint[AGENT_ENDPOINT_MAX + 1]; /* of `joining`, kept for repeats */
    uint64_t broken;
    uint32_t lost_ranks[AGENT_LOST_RANKS_MAX]; /* ascending, in generation `broken` */
    int lost_ranks_count;
    struct worker_wait wait; /* in its generation, as it told last */
    struct worker_exit exit;
    struct worker_stuck stuck; /* count 0 = it is not */
    char start_error[AGENT_START_ERROR_MAX + 1];
    struct agent_parked join, watch;
    int64_t kill_at_ms;        /* with STOPPING */
    struct agent_worker *next; /* by job, then uid */
};

struct agent_core;

struct agent_core *agent_core_new(void); /* NULL without memory */
void agent_core_free(struct agent_core *core);

/* Consume one event, append what follows from it. */
void agent_step(struct agent_core *core, const struct agent_event *event,
                struct agent_actions *actions);

/* All workers, ordered by job and uid; NULL after the last. */
const struct agent_worker *agent_core_first(const struct agent_core *core);
const struct agent_worker *agent_core_find(const struct agent_core *core,
                                           const struct worker_key *key);
bool agent_core_registered(const struct agent_core *core);

/* Whose token this is, one of any generation. E_UNAUTHENTICATED; E_UNAVAILABLE while there may be
 * workers that no coordinator has spoken of yet. */
int agent_core_identify(const struct agent_core *core, const char *token, struct worker_key *ret,
                        struct error *err);

/* May the bearer of `token` speak for this worker? The tokens it was given are compared in constant
 * time. One of an earlier generation is good where its bearer still has to learn of the new one
 * (`old_ok`: Hello, Join, Watch, Progress, LostPeers, a checkpoint that is done) and E_ABORTED
 * elsewhere. E_NOT_FOUND,
 * E_UNAUTHENTICATED; E_UNAVAILABLE for a worker that no coordinator has spoken of yet: ask again.
 */
int agent_core_authorize(const struct agent_core *core, const struct worker_key *key,
                         const char *token, bool old_ok, struct error *err);

/* What must hold between steps; aborts if it does not. */
void agent_core_check(const struct agent_core *core);

#endif
