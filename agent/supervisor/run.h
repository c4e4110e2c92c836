/* One worker's run as the launcher knows it: its directory, its shim, how far its output was read.
 * Only launcher_shim.c includes this and its own file. */
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
    char mark[AGENT_TOKEN_MAX + 32]; /* environment entry all processes of the worker carry */
    struct proc shim;                /* pidfd -1 when it is gone */
    struct run_worker worker;
    bool started;              /* its worker.json was seen */
    bool ended;                /* nothing more will happen to it */
    int64_t user;              /* uid of the worker */
    struct worker_stuck stuck; /* as it was told last */
    const char *orphaned;      /* why its shim is gone without a record; NULL = it is not */
    int64_t orphaned_ms;       /* since when */
    int removals;              /* how often its cgroup was tried to remove, with orphaned */
    bool oom;                  /* its cgroup said so before it was removed */
    int pending_signal;        /* for the shim, as soon as it can take it; 0 = none */
    int kills;                 /* how often its end was demanded */
    int watch;                 /* of inotify, -1 = none */
    bool dirty, moved;         /* inotify named it in this turn, and that a file came */
    uint64_t seen_bytes;       /* of output that was announced */
    struct run_acked acked, batch_end;
    struct launch_gpus gpus;                 /* its own */
    struct launch_gpus in_cgroup, in_mounts; /* what these allow, as they were told last */
    uint64_t freed_bytes;                    /* of the output file, given back to the file system */
    struct run *next;
};

/* What names its processes to tree_kill_orphans, from its environment; and whom it runs as. */
void run_mark(struct run *run, const struct launch *launch);

/* Read what there is in the directory of a run that an earlier agent started, and find out how it
 * stands; a shim that is gone without a record is settled here. */
int run_adopt(struct run *run, struct worker_found *ret, struct error *err);

/* One of `runs` with a living shim of the same job and user, whose namespaces are the job's; NULL =
 * there is none. */
const struct run *run_beside(const struct run *runs, const struct run *run);

/* The worker's, with started or orphaned. */
void run_cgroup(const struct run *run, struct cgroup *ret);

/* Its shim is gone without a record (run->orphaned says why): SIGKILL to what is left. When nothing
 * is, the end is recorded and true returned; else `ret_stuck` names the processes. */
bool run_settle_orphan(struct run *run, int64_t wall_ms, struct worker_exit *ret,
                       struct worker_stuck *ret_stuck);

int run_read_output(struct run *run, size_t max_bytes, struct output_batch *ret, struct error *err);
void run_acknowledge(struct run *run, uint64_t next);
uint64_t run_output_bytes(const struct run *run); /* size of the file, 0 if there is none */

#endif
