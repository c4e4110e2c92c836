/* struct disk on the real file system. Stateless; any thread. Paths are absolute: relative ones are
 * refused with E_INVALID_ARGUMENT, so that no program depends on its working directory.
 */
#ifndef ENV_DISK_OS_H
#define ENV_DISK_OS_H

#include "common/base/buf.h"
#include "common/env/env.h"

struct disk disk_os(void);

/* Like its write_file without the syncs: every process sees the old or the new file, but a crash of
 * the machine may lose it. For the agent's loop: a sync can block for seconds while others fill the
 * disk, and a node that is silent for its lease is lost. */
int disk_replace(const char *path, const struct buf *text, int mode, struct error *err);

#endif
