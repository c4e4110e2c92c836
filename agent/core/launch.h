/* The process types shared by agent/core and agent/supervisor: what the core asks of a launcher,
 * and what it gets back. Plain data without ownership, except where stated. */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/name.h"

enum {
    AGENT_TOKEN_MAX = 127,
    AGENT_TOKENS_KEPT = 4,
    AGENT_LAST_OUTPUT_MAX_BYTES = 2048,
    AGENT_START_ERROR_MAX = 511,
    AGENT_STUCK_PIDS_MAX = 16,
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

/* Identifies one worker for ever: a job never reuses a uid. */
struct worker_key {
    char job[JOB_ID_MAX + 1]; /* [A-Za-z0-9._-], never "." or ".." */
    uint64_t uid;
};

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
    uint16_t master_port;           /* must be free if this node serves it; 0 = do not check */
    const char *master_addr;        /* the address on which it must be free */
};

/* How a process ended: proto Exit in the agent's types. */
struct worker_exit {
    int code;   /* meaningful when signal is 0 */
    int signal; /* 0 if it exited by itself */
    bool oom;   /* killed for memory, according to the cgroup */
    bool lost;  /* its end was not observed */
    int64_t wall_ms;
    char text[256]; /* "killed by SIGKILL (out of memory: 2.0 GiB of 2.0 GiB)" */
    char last_output[AGENT_LAST_OUTPUT_MAX_BYTES + 1];
};

/* Processes of a worker that SIGKILL did not end. The kernel keeps them (uninterruptible sleep in a
 * driver or a file system, a frozen cgroup) with their devices and memory. */
struct worker_stuck {
    int64_t pids[AGENT_STUCK_PIDS_MAX]; /* the first of them, ascending */
    int count;                          /* 0 = none */
    int64_t wall_ms;                    /* when this was recorded */
    bool ended;                         /* the worker's first process has ended; `exit` has how */
    struct worker_exit exit;
};

/* The agent's memory of a worker besides its process. An agent started later learns from it what
 * the worker was sent. Stored in the run directory by launcher.remember. */
struct worker_memory {
    bool aware;                 /* it has called Hello */
    uint64_t generation;        /* newest it has joined, 0 = none */
    uint64_t step, total_steps; /* at the last change of the fields above */
    /* Tokens it may have, newest first, "" = none. It uses the old token until the answer with the
     * new one has arrived. Secret: only the agent may read the file. */
    char tokens[AGENT_TOKENS_KEPT][AGENT_TOKEN_MAX + 1];
};

/* A worker found in its run directory when the agent starts. */
struct worker_found {
    struct worker_key key;
    uint64_t start_generation;
    uint32_t rank; /* at its start */
    int64_t pid;   /* of the worker; 0 if it never ran */
    bool exited;
    struct worker_exit exit; /* with exited */
    struct worker_memory memory;
};

#endif
