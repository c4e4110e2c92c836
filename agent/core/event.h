/* All events of an agent. agent/link and agent/supervisor make them, agent_step consumes them.
 * Pointers in an event are borrowed for that step only; core has its own references to
 * assignments. Calls of workers arrive only with a token that agent_core_authorize accepted. */
#ifndef AGENT_EVENT_H
#define AGENT_EVENT_H

#include "agent/core/assignment.h"
#include "agent/core/launch.h"
#include "agent/core/wait.h"

enum agent_event_kind {
    AGENT_EVENT_TICK,         /* the requested time is over */
    AGENT_EVENT_FOUND,        /* at start: a run directory of an earlier agent */
    AGENT_EVENT_REGISTERED,   /* the coordinator accepted this incarnation */
    AGENT_EVENT_UNREGISTERED, /* the coordinator does not know us (any more) */
    AGENT_EVENT_FENCED,       /* a newer agent of this name has replaced this one */
    AGENT_EVENT_DESIRED,      /* all assignments of this node */
    AGENT_EVENT_STARTED,
    AGENT_EVENT_START_FAILED,
    AGENT_EVENT_STUCK, /* SIGKILL did not end it */
    AGENT_EVENT_EXITED,
    AGENT_EVENT_SHIPPED, /* all output of an exited worker was acknowledged */
    AGENT_EVENT_HELLO,
    AGENT_EVENT_JOIN,
    AGENT_EVENT_WATCH,
    AGENT_EVENT_PROGRESS,
    AGENT_EVENT_LOST_PEERS,
    AGENT_EVENT_GPUS,     /* all were read */
    AGENT_EVENT_STOP_ALL, /* the agent must end its workers before it leaves */
    AGENT_EVENT_KILL_ALL, /* the same again: at once */
};

struct agent_event {
    enum agent_event_kind kind;
    int64_t now_ms;
    struct worker_key key; /* for events about one worker */
    uint64_t request;      /* a call that waits for AGENT_ACTION_ANSWER or _REFUSE; 0 = none */
    int64_t deadline_ms;   /* of the call: answered before it, if necessary with "nothing yet" */
    union {
        const struct worker_found *found;
        struct {
            struct assignment *const *assignments;
            int count;
        } desired;
        struct {
            int64_t pid;
        } started;
        struct {
            const char *start_error;
            int start_code; /* of agent_start_code */
        };
        struct {
            const int64_t *used_bytes; /* of their memory, by slot; -1: it cannot be read */
            int count;
            int64_t begun_ms; /* when the reading began */
        } gpus;
        const struct worker_stuck *stuck;
        const struct worker_exit *exit;
        struct {
            uint64_t generation, step;
            const char *endpoint;
        } join;
        struct {
            uint64_t generation;
        } watch;
        struct {
            uint64_t generation, step, total_steps;
            const struct worker_wait *wait; /* NULL = not waiting */
            uint64_t dropped;               /* reports over a limit, in all; 0 = as before */
            bool reports;                   /* the program reports without libworker */
            bool busy;                      /* by its report it will complete no step for a while */
        } progress;
        struct {
            uint64_t generation;
            const uint32_t *ranks;
            int count;
        } lost_peers;
    };
};

#endif
