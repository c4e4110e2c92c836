/* The launcher's state of one worker's run: its directory, its shim, the position in its output.
 * Only launcher_shim.c and run*.c include this. */
#ifndef SUPERVISOR_RUN_H
#define SUPERVISOR_RUN_H

#include "agent/supervisor/launcher.h"
#include "agent/supervisor/rundir.h"
#include "common/env/proc.h"

struct launcher_shim;

struct run {
    struct launcher_shim *owner;
    struct worker_key key;
    struct rundir dir;
    uint64_t generation;
    uint32_t rank;
    char mark[AGENT_TOKEN_MAX + 32]; /* environment entry in all processes of the worker */
    struct proc shim;                /* pidfd -1 after its end */
    struct run_worker worker;
    bool started;              /* its worker.json was read */
    bool ended;                /* no more events will follow */
    int64_t user;              /* uid of the worker */
    struct worker_stuck stuck; /* as last reported */
    const char *orphaned;      /* why its shim ended without a record; NULL = it did not */
    int64_t orphaned_ms;       /* since when */
    int removals;              /* number of attempts to remove its cgroup, with orphaned */
    bool oom;                  /* according to its cgroup before that was removed */
    int pending_signal;        /* for the shim, as soon as it can receive it; 0 = none */
    int kills;                 /* number of requests for its end */
    int watch;                 /* of inotify, -1 = none */
    bool dirty, moved;         /* inotify named it in this turn, and reported a new file */
    uint64_t seen_bytes;       /* of output that was announced */
    struct run_acked acked, batch_end;
    struct launch_gpus gpus;                 /* its own */
    struct launch_gpus in_cgroup, in_mounts; /* what these allow, as last set */
    uint64_t freed_bytes;                    /* of the output file, returned to the file system */
    struct run *next;
};

/* The mark that identifies its processes to tree_kill_orphans in their environment; and its user.
 */
void run_mark(struct run *run, const struct launch *launch);

/* Read the run directory of an earlier agent's worker and find its present state. A shim that ended
 * without a record is settled here. */
int run_adopt(struct run *run, struct worker_found *ret, struct error *err);

/* A run in `runs` with a living shim of the same job and user, for its namespaces; NULL = none. */
const struct run *run_beside(const struct run *runs, const struct run *run);

/* To its shim, which accepts signals after it has written worker.json: at once, or then. */
void run_signal(struct run *run, int signal);

/* The worker's cgroup; requires started or orphaned. */
void run_cgroup(const struct run *run, struct cgroup *ret);

/* Its shim ended without a record (run->orphaned has the reason): SIGKILL the remaining processes.
 * If none is left, record the end and return true; otherwise `ret_stuck` has them. */
bool run_settle_orphan(struct run *run, int64_t wall_ms, struct worker_exit *ret,
                       struct worker_stuck *ret_stuck);

int run_read_output(struct run *run, size_t max_bytes, struct output_batch *ret, struct error *err);
void run_acknowledge(struct run *run, uint64_t next);
uint64_t run_output_bytes(const struct run *run); /* size of the file, 0 if it does not exist */

#endif
