/* Workers' files on disk outside the run directories, which belong to the agent alone:
 *
 *   DATA/work/<job>.<uid>          the worker's own folder (0700, its user's); see rundir_create
 *   DATA/work/<job>.<uid>.token    its token (0400, its user's)
 *   DATA/work/<job>.<uid>.secrets  the secrets of its job (0700, a file each, its user's)
 *   DATA/tmp/<job>                 /tmp of all workers of the job, in their own mount namespaces
 *
 * Everything is removed with the run, or by the next agent. It is moved to DATA/tmp/.removed.* at
 * once and deleted on a side thread, because a worker may have left millions of files. Loop thread.
 */
#ifndef SUPERVISOR_WORKPLACE_H
#define SUPERVISOR_WORKPLACE_H

#include "agent/supervisor/rundir.h"
#include "common/loop/loop.h"

struct workplace { /* plain; disk and loop are borrowed */
    const struct disk *disk;
    struct loop *loop;
    unsigned removed; /* so far */
    char work[RUNDIR_PATH_MAX], tmp[RUNDIR_PATH_MAX];
};

/* E_OUT_OF_RANGE for paths that are too long. */
int workplace_init(struct workplace *place, const char *work, const char *tmp);
int workplace_make(const struct workplace *place, struct error *err);

int workplace_work(const struct workplace *place, const struct worker_key *key,
                   char ret[RUNDIR_PATH_MAX], struct error *err);

/* If record->launch has a token or secrets: the paths of their file and folder, and variables with
 * those paths, in `arena`. */
int workplace_private(struct run_launch *record, struct arena *arena, struct error *err);

/* The folder is made if it is missing. */
int workplace_tmp(const struct workplace *place, const char *job, char ret[RUNDIR_PATH_MAX],
                  struct error *err);

/* Remove a worker's own files, a job's, or any other path of the same file system. */
void workplace_remove_worker(struct workplace *place, const struct worker_key *key);
void workplace_remove_job(struct workplace *place, const char *job);
void workplace_remove(struct workplace *place, const char *path);

/* Remove everything without a run. `known` is called for each worker, and for each job with uid 0.
 */
void workplace_sweep(struct workplace *place,
                     bool (*known)(void *arg, const struct worker_key *key, bool whole_job),
                     void *arg);

#endif
