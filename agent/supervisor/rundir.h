/* The run directory of one worker, DATA/runs/<job>.<uid>. Agent and shim exchange all data through
 * it, and it proves that this worker was started once. Its small JSON files are written atomically,
 * each by one side.
 *
 *   launch.json  agent  what to start (secret: contains the worker's token); its presence means
 *                       that this key is used up; the shim makes it durable before the worker
 *                       starts
 *   shim.json    shim   its pid and start time, created exclusively: the shim that creates it
 *                       continues. An agent that adopts a directory without one creates an empty
 *                       one, so that a late shim never starts the worker
 *   worker.json  shim   the worker's pid, start time and cgroup; or why it could not be started
 *   output       shim   lines, see output.h; the agent frees the acknowledged part
 *   stuck.json   shim   processes of the worker that SIGKILL did not end
 *   exit.json    shim   how the worker ended, after all its processes ended too; by the agent
 *                       when the shim itself was killed
 *   memory.json  agent  worker_memory (secret)
 *   acked.json   agent  how far the output was acknowledged
 *   shim.log     shim   its errors
 *
 * Only the agent's user can open the directory and its files (0700, 0600), because programs of
 * other tenants run on the same machine. The files of the worker's user are elsewhere:
 *
 *   DATA/work/<job>.<uid>          0700  where the command starts if the job names no folder
 *   DATA/work/<job>.<uid>.token    0400  MUSTER_WORKER_TOKEN_FILE names it: a process's
 *                                        environment can be read in more places than a file
 *   DATA/work/<job>.<uid>.secrets  0700  the secrets of the job, one file (0400) each
 *
 * No other file has the secrets' values. The shim reads them when it starts the worker, and removes
 * them after the worker ended.
 */
#ifndef SUPERVISOR_RUNDIR_H
#define SUPERVISOR_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/launch.h"
#include "agent/supervisor/run_launch.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/env/env.h"

enum {
    RUNDIR_FILE_MAX_BYTES = 4 << 20,
    BOOT_ID_BYTES = 40,
};

struct rundir { /* plain; disk is borrowed */
    const struct disk *disk;
    char path[RUNDIR_PATH_MAX];
};

struct run_process { /* identifies a process on this machine, also after a reboot */
    int64_t pid;     /* 0 = none */
    uint64_t start_ticks;
    char boot[BOOT_ID_BYTES];
};

struct run_worker { /* worker.json */
    struct run_process process;
    char cgroup[RUNDIR_PATH_MAX];                /* "" = none */
    char cgroup_pids[RUNDIR_PATH_MAX];           /* as in struct cgroup */
    char cgroup_devices[RUNDIR_PATH_MAX];        /* the same */
    char start_error[AGENT_START_ERROR_MAX + 1]; /* "" = it runs */
    int start_code;                              /* with start_error */
};

struct run_acked {
    uint64_t lines, bytes;
};

int rundir_init(struct rundir *dir, const struct disk *disk, const char *path, struct error *err);

/* "<job>.<uid>" and back; E_INVALID_ARGUMENT for a job id that is not a plain file name. */
int rundir_name(const struct worker_key *key, char ret[RUNDIR_PATH_MAX], struct error *err);
int rundir_parse_name(const char *name, struct worker_key *ret);

/* Create the directory, how->work, how->token, how->secrets and launch.json. E_ALREADY_EXISTS if it
 * was ever made. Does not wait for the disk, because the agent's loop calls it. */
int rundir_create(const struct rundir *dir, const struct run_launch *how, struct error *err);

/* Make launch.json durable. Waits for the disk: for shims. */
int rundir_settle(const struct rundir *dir, struct error *err);
int rundir_read_launch(const struct rundir *dir, struct arena *arena, struct run_launch *ret,
                       struct error *err);

/* E_ALREADY_EXISTS if another shim was first. */
int rundir_claim(const struct rundir *dir, const struct run_process *shim, struct error *err);

/* Reads: E_NOT_FOUND while the file does not exist. */
int rundir_read_shim(const struct rundir *dir, struct run_process *ret, struct error *err);
int rundir_write_worker(const struct rundir *dir, const struct run_worker *worker,
                        struct error *err);
int rundir_read_worker(const struct rundir *dir, struct run_worker *ret, struct error *err);
int rundir_write_stuck(const struct rundir *dir, const struct worker_stuck *stuck,
                       struct error *err);
int rundir_read_stuck(const struct rundir *dir, struct worker_stuck *ret, struct error *err);
int rundir_write_exit(const struct rundir *dir, const struct worker_exit *exit, struct error *err);
int rundir_read_exit(const struct rundir *dir, struct worker_exit *ret, struct error *err);
int rundir_write_memory(const struct rundir *dir, const struct worker_memory *memory,
                        struct error *err);
int rundir_read_memory(const struct rundir *dir, struct worker_memory *ret, struct error *err);
int rundir_write_acked(const struct rundir *dir, const struct run_acked *acked, struct error *err);
int rundir_read_acked(const struct rundir *dir, struct run_acked *ret, struct error *err);

/* Path of a file in the directory. */
int rundir_file(const struct rundir *dir, const char *name, char ret[RUNDIR_PATH_MAX],
                struct error *err);

/* Identify this process, and test whether one is alive on this machine. */
int run_process_of(pid_t pid, struct run_process *ret, struct error *err);
bool run_process_alive(const struct run_process *process);

/* The name, for cgroup_create, of the cgroup of a worker under the shim with this pid. */
int run_cgroup_name(const struct worker_key *key, int64_t shim, char ret[RUNDIR_PATH_MAX]);

#endif
