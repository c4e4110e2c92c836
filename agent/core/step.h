/* The agent's decisions: pure. It compares the desired workers (assignments of the coordinator)
 * with the actual ones, and the difference becomes actions. It touches no clock, file, process or
 * socket; one thread.
 *
 *       its slots are free: START      Join answered
 *     (new) ───────────► starting ───────────────────► joined ◄─┐ newer generation joined
 *       │                   │  │ stop or absent          │  └───┘
 *       │ stop before it    │  └──────────► stopping ◄───┘
 *       │ ever ran          │ exit, or        │ exit
 *       └──────────────►  exited ◄────────────┘
 *                           │ no longer desired, and its output shipped
 *                           ▼
 *                       forgotten (never started again: uids are not reused)
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
#include "common/base/error.h"

enum {
    AGENT_WORKERS_MAX = 4096,       /* at once, exited ones included */
    AGENT_LOST_RANKS_MAX = 1024,    /* stored per worker and generation */
    AGENT_TOMBSTONES_MAX = 1024,    /* forgotten workers that must not start again */
    AGENT_GRACE_DEFAULT_MS = 10000, /* without a value from an assignment */
    AGENT_KILL_AGAIN_MS = 2000,
    AGENT_ANSWER_MARGIN_MS = 200, /* parked calls are answered this long before their deadline */
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

struct agent_worker { /* read-only outside the core */
    struct worker_key key;
    enum agent_worker_state state;
    struct assignment *assignment; /* newest, with a reference; NULL when adopted and not yet
                                    * desired */
    bool desired;                  /* named by the last DESIRED */
    bool process;                  /* the launcher has a process: it will report EXITED once */
    bool waits;                    /* STARTING, but an unwanted worker still uses its slots */
    bool shipped;                  /* with EXITED: the coordinator has its output */
    int64_t pid;
    struct worker_memory memory; /* aware, generation joined, step */
    uint64_t joining;
    char endpoint[ENDPOINT_MAX + 1]; /* of `joining`, kept for repeated calls */
    uint64_t broken;
    uint32_t lost_ranks[AGENT_LOST_RANKS_MAX]; /* ascending, in generation `broken` */
    int lost_ranks_count;
    struct worker_wait wait; /* in its generation, as last reported */
    struct worker_exit exit;
    struct worker_stuck stuck; /* count 0 = not stuck */
    char start_error[AGENT_START_ERROR_MAX + 1];
    struct agent_parked join, watch;
    int64_t kill_at_ms;        /* with STOPPING */
    struct agent_worker *next; /* by job, then uid */
};

struct agent_core;

struct agent_core *agent_core_new(void); /* NULL if memory is out */
void agent_core_free(struct agent_core *core);

/* Consume one event and append the resulting actions. */
void agent_step(struct agent_core *core, const struct agent_event *event,
                struct agent_actions *actions);

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
