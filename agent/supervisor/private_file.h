/* Files readable only by the worker's user (0400) outside its run directory: its token, and the
 * secrets of its job in a folder (0700). The agent makes them with the run. The shim reads the
 * secrets when it starts the worker, and removes them after the worker ended. Their folders are
 * writable only for the agent. */
#ifndef SUPERVISOR_PRIVATE_FILE_H
#define SUPERVISOR_PRIVATE_FILE_H

#include "agent/supervisor/run_launch.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/env/env.h"

enum { PRIVATE_SECRET_MAX_BYTES = 1 << 20 };

/* Write how->token and how->secrets if set, replacing existing ones. */
int private_files_write(const struct run_launch *how, struct error *err);

/* Fill the values of run->launch.secrets, in the arena. */
int private_secrets_read(struct run_launch *run, const struct disk *disk, struct arena *arena,
                         struct error *err);

/* Clear the values in memory and delete the files; the agent removes the rest of the folder. */
void private_secrets_forget(struct run_launch *run);

#endif
