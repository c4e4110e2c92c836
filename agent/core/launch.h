/* What the core says about a process to whoever starts it, and what it hears back: the words that
 * agent/core and agent/supervisor share. Plain data, no ownership but where said.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    AGENT_JOB_ID_MAX = 31,
    AGENT_ENDPOINT_MAX = 159,
    AGENT_TOKEN_MAX = 127,
    AGENT_TOKENS_KEPT = 4,
    AGENT_LAST_OUTPUT_MAX_BYTES = 2048,
    AGENT_START_ERROR_MAX = 511,
    AGENT_STUCK_PIDS_MAX = 16,
    AGENT_GROUPS_MAX = 64,
    AGENT_GPUS_MAX = 16,
};

/* Exit codes of a worker that never ran, as a shell has them; the first two may go away by
 * themselves. */
enum {
    AGENT_START_AGAIN = 71,      /* EX_OSERR: not now, or not here */
    AGENT_START_NODE_FAULT = 74, /* EX_IOERR: this node starts nobody now: its disk is full, ... */
    AGENT_START_NOT_EXECUTABLE = 126,
    AGENT_START_NOT_FOUND = 127,
};

/* The one for the error (common/base/error.h) that kept it from starting. */
int agent_start_code(int error_code);

/* Names one worker for ever: uids are never used again in their job. */
struct worker_key {
    char job[AGENT_JOB_ID_MAX + 1]; /* [A-Za-z0-9._-], never "." or ".." */
    uint64_t uid;
};

struct launch_user { /* whom a worker runs as */
    uid_t uid;
    gid_t gid;
    gid_t groups[AGENT_GROUPS_MAX]; /* supplementary */
    int groups_count;
    const char *name, *home, *shell;
};

struct launch_gpus { /* device numbers; plain, zeroed where there is none: sets compare by memcmp */
    uint32_t
        major; /* of the nodes of GPUs; 0 = slots are no GPUs, or their numbers are not known */
    int count;
    uint32_t minors[AGENT_GPUS_MAX]; /* ascending */
};

/* Also all of `more`'s; where one of the two is not known, neither is the sum. */
void launch_gpus_join(struct launch_gpus *into, const struct launch_gpus *more);

struct launch_secret { /* a variable of the worker that is shown nowhere */
    const char *name, *value;
};

/* All that a launcher needs to start a worker. Borrowed for the call. */
struct launch {
    struct worker_key key;
    uint64_t generation; /* it starts in */
    uint32_t rank;
    const char *const *argv; /* NULL-terminated, argv[0] searched in PATH */
    const char *const *envp; /* NULL-terminated "NAME=value", the whole environment; the launcher
                                adds MUSTER_WORKER_TOKEN_FILE where there is a token */
    const char *token;       /* of the worker, secret: only its user can read that file; NULL, "" =
                                none */
    /* Of the job: each is added to the environment when the worker is started, and is a file of
     * that name in a folder of its user's, which MUSTER_SECRETS names. */
    const struct launch_secret *secrets;
    int secrets_count;
    const char *workdir;            /* "" = the run directory */
    uint64_t memory_bytes;          /* 0 = not limited */
    uint32_t processes;             /* and threads it may have; 0 = not limited */
    const struct launch_user *user; /* NULL = the agent's */
    const char *cores;              /* "0-3,8": those it may run on; "" = any */
    struct launch_gpus gpus;        /* of the worker: its job may open them, others may not */
    uint16_t master_port;    /* must be free when this node is to serve it; 0 = do not look */
    const char *master_addr; /* where it is to be free */
};

/* How a process ended: proto Exit in our words. */
struct worker_exit {
    int code;   /* meaningful when signal is 0 */
    int signal; /* 0 if it exited by itself */
    bool oom;   /* killed for memory: the cgroup's word */
    bool lost;  /* nobody saw how it ended */
    int64_t wall_ms;
    char text[256]; /* "killed by SIGKILL (out of memory: 2.0 GiB of 2.0 GiB)" */
    char last_output[AGENT_LAST_OUTPUT_MAX_BYTES + 1];
};

/* Processes of a worker that SIGKILL did not end: the kernel keeps them (uninterruptible sleep in a
 * driver or a file system, a frozen cgroup), and with them their devices and their memory. */
struct worker_stuck {
    int64_t pids[AGENT_STUCK_PIDS_MAX]; /* the first of them, ascending */
    int count;                          /* 0 = it is not stuck */
    int64_t wall_ms;                    /* when this was written down */
    bool ended;                         /* the worker's first process has; `exit` says how */
    struct worker_exit exit;
};

/* What the agent keeps about a worker beside its process, so that an agent started later knows what
 * the worker has been told: stored in the run directory by launcher.remember. */
struct worker_memory {
    bool aware;                 /* it said Hello */
    uint64_t generation;        /* newest it has joined, 0 = none */
    uint64_t step, total_steps; /* as of the last change of the above */
    /* Tokens it may hold, newest first, "" = none: it goes on using the one before until the
     * answer with the next has reached it. Secret: the file is for the agent's eyes only. */
    char tokens[AGENT_TOKENS_KEPT][AGENT_TOKEN_MAX + 1];
};

/* A worker found in its run directory when the agent starts. */
struct worker_found {
    struct worker_key key;
    uint64_t start_generation;
    uint32_t rank; /* it was started with */
    int64_t pid;   /* of the worker; 0 if it never ran */
    bool exited;
    struct worker_exit exit; /* with exited */
    struct worker_memory memory;
};

#endif
