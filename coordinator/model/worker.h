/* A worker: one process of a job, placed on a node. Part of the cluster (cluster.h). */
#ifndef MODEL_WORKER_H
#define MODEL_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/name.h"
#include "coordinator/model/spec.h"
#include "coordinator/model/state.h"

enum { COLLECTIVE_RANKS_MAX = 16 };

/* Exit codes with a meaning of their own. */
enum {
    EXIT_USAGE_ERROR = 64,     /* EX_USAGE of sysexits.h */
    EXIT_PEER_LOST = 76,       /* WK_EXIT_PEER: a worker ends because a peer did */
    EXIT_CONFIG = 78,          /* WK_EXIT_CONFIG, EX_CONFIG: its settings are refused */
    EXIT_NOT_EXECUTABLE = 126, /* as in shells and the agent */
    EXIT_NODE_FAULT = 74,      /* of a worker that was not started: its node cannot start any now */
    EXIT_NOT_FOUND = 127,
};

struct exit_info {
    int code, signal;
    bool oom, lost;
    bool unstarted;  /* the process never existed */
    bool node_fault; /* and the cause was its node: it costs the job nothing */
    char text[256];
    char last_output[2048];
    int64_t wall_ms;
};

struct collective_wait { /* in a collective, for other ranks */
    char communicator[32];
    char operation[128];      /* "all_reduce #7 (sum of 1000 f32, 4000 bytes)" */
    uint64_t sequence;        /* number of the operation in its communicator */
    int64_t bytes, waited_ms; /* waited_ms 0 = not waiting */
    uint32_t ranks[COLLECTIVE_RANKS_MAX];
    int ranks_named, ranks_count; /* number of entries in `ranks`, and of all such ranks */
};

struct worker {
    uint64_t uid;
    char node[NAME_LENGTH_MAX + 1];
    enum worker_state state;
    bool should_stop; /* the desired state is to end it */
    bool leaving;     /* its node is given back: it is not in the next group */
    bool spare;       /* in no group: keeps its slots for the gang in case a node is lost. Always
                       * `held` too; its agent does not know of it */
    bool held;        /* backoff: must not start yet, so not in the desired state */
    bool aware;       /* uses libworker's protocol */
    bool reports;     /* reports without it */
    int slot;         /* first slot on its node */
    int local_rank;   /* place on its node, never changes */
    int64_t pid;
    uint64_t step;
    uint64_t joined;  /* newest generation it has joined */
    uint64_t joining; /* generation it asks to join (endpoint is set); 0 = none */
    char endpoint[ENDPOINT_MAX + 1];
    uint64_t broken;     /* generation in which it lost peers */
    uint64_t lost_in;    /* generation in which peers reported losing it */
    uint64_t born;       /* generation it was started for */
    uint64_t generation; /* newest group it is or was a member of */
    int rank;            /* in that group */
    struct exit_info exit;
    /* derived, not stored */
    uint64_t stamp;              /* of the last inventory or report that named it */
    int64_t started_ms;          /* first seen running */
    struct collective_wait wait; /* in generation `joined` */
    uint64_t reports_dropped;    /* by its agent, over a limit */
};

#endif
