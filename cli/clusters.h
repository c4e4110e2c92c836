/* The clusters that `muster up` runs for this user, so that client verbs find one without an
 * address:
 *
 *       ~/.local/share/muster/current         -> the data folder of the newest running one
 *       ~/.local/share/muster/clusters/<id>      the data folder of each; locked while that `up`
 *                                                lives
 *
 * The kernel releases a lock with its owner, however that ended, so an unlocked file is a leftover.
 * An id is random: machines and containers with equal process numbers may share a home. Reads and
 * writes files; one thread.
 */
#ifndef CLI_CLUSTERS_H
#define CLI_CLUSTERS_H

#include <limits.h>
#include <stdbool.h>

#include "common/base/error.h"

struct clusters_entry { /* of this `up` */
    int lock;           /* -1 = it is not entered */
    char path[PATH_MAX];
};

/* Register the cluster and let `current` point to it; lock -1 and a sentence if that is impossible.
 * It is registered even if `current` could not be written. */
int clusters_enter(const char *data, struct clusters_entry *ret, struct error *err);

/* Let `current` point to the newest of the others, or remove it, unless it points elsewhere. Closes
 * the entry; an unregistered one is allowed. */
void clusters_leave(const char *data, struct clusters_entry *entry);

/* The newest running one, except `but` (may be NULL); false if there is none. */
bool clusters_newest(const char *but, char ret_data[PATH_MAX]);

bool clusters_runs(const char *data);

/* Where `current` points; false if it does not exist. */
bool clusters_current(char ret_data[PATH_MAX]);

#endif
