/* Files of the worker's user alone (0400) beside its run: its token, and the secrets of its job in
 * a folder (0700). The agent makes them with the run; the shim reads the secrets when it starts the
 * worker, and removes them when the worker has ended. In folders that only the agent writes to.
 */
#ifndef SUPERVISOR_PRIVATE_FILE_H
#define SUPERVISOR_PRIVATE_FILE_H

#include "agent/supervisor/rundir.h"

enum { PRIVATE_SECRET_MAX_BYTES = 1 << 20 };

/* how->token and how->secrets, where they are named, in place of any that are there. */
int private_files_write(const struct run_launch *how, struct error *err);

/* Fill the values of run->launch.secrets, in the arena. */
int private_secrets_read(struct run_launch *run, const struct disk *disk, struct arena *arena,
                         struct error *err);

/* The values of memory and the files go; what else lies in the folder is the agent's to remove. */
void private_secrets_forget(struct run_launch *run);

#endif
