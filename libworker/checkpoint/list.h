/* The folders of a job's checkpoints (folder.h): their names, which are there, and their removal.
 * Any thread; one writer per folder at a time.
 */
#ifndef CHECKPOINT_LIST_H
#define CHECKPOINT_LIST_H

#include <stdint.h>

#include "common/base/error.h"
#include "libworker/checkpoint/folder.h"

/* Steps of the folders in `dir` that have a manifest, ascending; malloc'd, the caller frees. 0 of
 * them if `dir` is absent. A folder that may not be searched is one of them: loading it fails with
 * the reason. */
int checkpoint_list(const char *dir, int64_t **ret_steps, int *ret_count, struct error *err);

/* "<dir>/step-00000200". WK_EINVAL if too long. */
int checkpoint_path(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX]);

/* The step in a path of that form, or -1. */
int64_t checkpoint_step_of(const char *path);

/* Remove the folder of one checkpoint; what is no step- folder is refused. Absent is fine. */
int checkpoint_remove(const char *path, struct error *err);

/* The name of an unfinished write, which no other write has. WK_EINVAL if too long. */
int checkpoint_temporary(const char *dir, int64_t step, uint64_t generation, uint32_t ticket,
                         char ret[CHECKPOINT_PATH_MAX]);

/* Path of a committed checkpoint while another replaces it, on file systems that cannot exchange
 * two folders. WK_EINVAL if too long. */
int checkpoint_aside(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX]);

/* Remove what unfinished writes of this and older generations left in `dir`, except the folder
 * `keep`. A committed checkpoint that was set aside and not replaced is restored. */
int checkpoint_sweep(const char *dir, uint64_t generation, const char *keep, struct error *err);

/* That no other program on this machine writes to `dir` until *ret_fd, the caller's, is closed (a
 * lock of flock(2) on the folder, until the process ends). WK_ESTATE: one does. Where the
 * folder or its file system has no locks *ret_fd is -1, and no program is refused. */
int checkpoint_lock(const char *dir, int *ret_fd, struct error *err);

/* Of the checkpoints up to step `newest`, the one just written, remove all but the last `keep`; 0
 * keeps all. Later ones belong to another run, or to steps before this run went back: they stay,
 * and do not count. */
int checkpoint_prune(const char *dir, int64_t newest, int keep, struct error *err);

#endif
