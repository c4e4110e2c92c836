/* What the core asks of a launcher (agent/supervisor/launcher.h): all that a worker is started
 * with. Plain data, borrowed for the call. */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/process.h"

enum {
    AGENT_GROUPS_MAX = 64,
    AGENT_GPUS_MAX = 16,
};

/* Exit codes of a worker that never ran, as in a shell. The first two may be temporary. */
enum {
    AGENT_START_AGAIN = 71,      /* EX_OSERR: not now, or not here */
    AGENT_START_NODE_FAULT = 74, /* EX_IOERR: this node cannot start any worker now: its disk is
                                  * full, ... */
    AGENT_START_NOT_EXECUTABLE = 126,
    AGENT_START_NOT_FOUND = 127,
};

/* The code for the error (common/base/error.h) that prevented the start. */
int agent_start_code(int error_code);

struct launch_user { /* the user of a worker */
    uid_t uid;
    gid_t gid;
    gid_t groups[AGENT_GROUPS_MAX]; /* supplementary */
    int groups_count;
    const char *name, *home, *shell;
};

struct launch_gpus { /* device numbers; plain, zeroed when empty: sets compare by memcmp */
    uint32_t
        major; /* of the GPU device files; 0 = slots are not GPUs, or the numbers are unknown */
    int count;
    uint32_t minors[AGENT_GPUS_MAX]; /* ascending */
};

/* Add all of `more`. If either is unknown, so is the result. */
void launch_gpus_join(struct launch_gpus *into, const struct launch_gpus *more);

struct launch_secret { /* a variable of the worker that is never shown */
    const char *name, *value;
};

/* Everything a launcher needs to start a worker. Borrowed for the call. */
struct launch {
    struct worker_key key;
    uint64_t generation; /* its first generation */
    uint32_t rank;
    const char *const *argv; /* NULL-terminated, argv[0] searched in PATH */
    const char *const *envp; /* NULL-terminated "NAME=value", the whole environment; with a token
                              * the launcher adds MUSTER_WORKER_TOKEN_FILE */
    const char *token;       /* of the worker, secret: only its user can read that file; NULL, "" =
                              * none */
    /* Secrets of the job. Each is added to the environment at the start, and is a file of that name
     * in a folder of the worker's user, which MUSTER_SECRETS names. */
    const struct launch_secret *secrets;
    int secrets_count;
    const char *workdir;            /* "" = the run directory */
    uint64_t memory_bytes;          /* 0 = no limit */
    uint32_t processes;             /* limit, with threads; 0 = none */
    const struct launch_user *user; /* NULL = the agent's */
    const char *cores;              /* "0-3,8": the cores it may use; "" = any */
    struct launch_gpus gpus;        /* of the worker: its job may open them, others may not */
    int stop_signal;                /* what `terminate` sends; 0 = SIGTERM */
    int early_signal;               /* what `signal_early` sends; 0 = none */
    uint16_t master_port;           /* must be free if this node serves it; 0 = do not check */
    const char *master_addr;        /* the address on which it must be free */
};

#endif
