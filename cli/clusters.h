/* The clusters that `muster up` runs for this user, so that client verbs find one without being
 * told:
 *
 *     ~/.local/share/muster/current         -> the data folder of the one started last that runs
 *     ~/.local/share/muster/clusters/<pid>     the data folder of each; locked while that `up`
 * lives
 *
 * The kernel drops a lock with its holder, however that ended, so what is not locked is left over.
 * Blocks; one thread.
 */
#ifndef CLI_CLUSTERS_H
#define CLI_CLUSTERS_H

#include <limits.h>
#include <stdbool.h>

#include "common/base/error.h"

/* Its own, `current` points to it; -1 in `ret_lock` and a sentence where that cannot be done. */
int clusters_enter(const char *data, int *ret_lock, struct error *err);

/* `current` goes to the newest of the others, or away, unless it points elsewhere. -1 is fine. */
void clusters_leave(const char *data, int lock);

/* The newest that runs, other than `but` (may be NULL); false if there is none. */
bool clusters_newest(const char *but, char ret_data[PATH_MAX]);

bool clusters_runs(const char *data);

/* Where `current` points; false if it does not exist. */
bool clusters_current(char ret_data[PATH_MAX]);

#endif
