/* A worker's process as the core and a launcher (agent/supervisor/launcher.h) know it: its key, how
 * it ended, and what is remembered of it. Plain data without ownership. */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/name.h"

enum {
    AGENT_TOKEN_MAX = 127,
    AGENT_TOKENS_KEPT = 4,
    AGENT_LAST_OUTPUT_MAX_BYTES = 2048,
    AGENT_START_ERROR_MAX = 511,
    AGENT_STUCK_PIDS_MAX = 16,
};

/* Identifies one worker for ever: a job never reuses a uid. */
struct worker_key {
    char job[JOB_ID_MAX + 1]; /* [A-Za-z0-9._-], never "." or ".." */
    uint64_t uid;
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
    int64_t signal_wall_ms;     /* its early signal is settled up to then: sent, or not for it */
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
