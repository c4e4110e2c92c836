/* One worker of this node, in the agent's core:
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
 * Read-only outside the core, which owns it; one thread.
 */
#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include <stdbool.h>

#include "agent/core/action.h"
#include "agent/core/wait.h"

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
    struct worker_wait wait;  /* in its generation, as last reported */
    bool reports;             /* its program reports to this agent (docs/report.md) */
    int64_t stacks_wall_ms;   /* of the request for its stacks that was met last */
    bool busy;                /* by its report it completes no step for a while */
    uint64_t reports_dropped; /* and so much of it was over the limits */
    struct worker_exit exit;
    struct worker_stuck stuck; /* count 0 = not stuck */
    char start_error[AGENT_START_ERROR_MAX + 1];
    struct agent_parked join, watch;
    int64_t kill_at_ms;        /* with STOPPING */
    struct agent_worker *next; /* by job, then uid */
};

/* For the core only. */
void agent_worker_set_state(struct agent_worker *worker, enum agent_worker_state state);
bool agent_worker_runs(const struct agent_worker *worker);
void agent_worker_remember(struct agent_worker *worker, struct agent_actions *ret);
void agent_worker_hold_token(struct agent_worker *worker, const char *token);

#endif
