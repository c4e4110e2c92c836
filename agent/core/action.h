/* All that an agent may ask of the world. A step appends actions; agent/driver.c performs them in
 * order. */
#ifndef AGENT_ACTION_H
#define AGENT_ACTION_H

#include "agent/core/assignment.h"
#include "agent/core/launch.h"
#include "common/base/error.h"

enum agent_action_kind {
    AGENT_ACTION_REGISTER,  /* send the coordinator our identity and what runs here */
    AGENT_ACTION_REPORT,    /* a change that people wait for: report at once */
    AGENT_ACTION_START,     /* `assignment`; answered by EVENT_STARTED or EVENT_START_FAILED */
    AGENT_ACTION_TERMINATE, /* SIGTERM to the worker's process group */
    AGENT_ACTION_SIGNAL,    /* the job's early signal to the worker's process group */
    AGENT_ACTION_KILL,      /* SIGKILL to its whole tree */
    AGENT_ACTION_STACKS,    /* its processes write where they are, as far as they offer it */
    AGENT_ACTION_REMEMBER,  /* store `memory` in its run directory */
    AGENT_ACTION_FORGET,    /* remove its run directory */
    AGENT_ACTION_ANSWER,    /* `answer` to `request` */
    AGENT_ACTION_REFUSE,    /* `error` to `request` */
    AGENT_ACTION_READ_GPUS, /* soon; EVENT_GPUS has the result */
    AGENT_ACTION_WAKE_AT,   /* deliver EVENT_TICK at `at_ms`; the earliest one counts */
    AGENT_ACTION_LEAVE,     /* end this agent without touching a worker */
};

enum agent_answer_kind {
    AGENT_ANSWER_HELLO,    /* generation, assignment */
    AGENT_ANSWER_JOIN,     /* ready, generation, stop; assignment when ready */
    AGENT_ANSWER_WATCH,    /* generation, stop, grace_ms, leave_ms; assignment when it stops */
    AGENT_ANSWER_PROGRESS, /* nothing */
    AGENT_ANSWER_LOST_PEERS,
};

struct agent_answer {
    enum agent_answer_kind kind;
    bool ready, stop;
    uint64_t generation;
    uint32_t grace_ms, leave_ms;
};

struct agent_action {
    enum agent_action_kind kind;
    struct worker_key key;
    struct assignment *assignment; /* the list has a reference; START, ANSWER */
    struct worker_memory memory;
    uint64_t request;
    struct agent_answer answer;
    struct error *error; /* owned by the list; REFUSE */
    int64_t at_ms;
};

struct agent_actions { /* a growing list; zeroed memory is empty */
    struct agent_action *items;
    int count, capacity;
};

void agent_actions_fini(struct agent_actions *actions);
void agent_actions_clear(struct agent_actions *actions); /* releases the entries' memory */
/* Zeroed except the kind; valid until the next add. Never NULL: aborts if memory is out. */
struct agent_action *agent_actions_add(struct agent_actions *actions, enum agent_action_kind kind);

#endif
