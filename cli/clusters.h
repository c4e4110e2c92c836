/* The clusters that `muster up` runs for this user, so that client verbs find one without being
 * told:
 *
 *     ~/.local/share/muster/current         -> the data folder of the one started last that runs
 *     ~/.local/share/muster/clusters/<id>      the data folder of each; locked while that `up`
 *                                              lives
 *
 * The kernel drops a lock with its holder, however that ended, so what is not locked is left over.
 * An id is random: a home may be shared by machines and containers, whose process numbers are the
 * same. Reads and writes files; one thread.
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

/* Its own, `current` points to it; lock -1 and a sentence where that cannot be done. It is entered
 * though `current` could not be written. */
int clusters_enter(const char *data, struct clusters_entry *ret, struct error *err);

/* `current` goes to the newest of the others, or away, unless it points elsewhere. Closes it; one
 * that is not entered is fine. */
void clusters_leave(const char *data, struct clusters_entry *entry);

/* The newest that runs, other than `but` (may be NULL); false if there is none. */
bool clusters_newest(const char *but, char ret_data[PATH_MAX]);

bool clusters_runs(const char *data);

/* Where `current` points; false if it does not exist. */
bool clusters_current(char ret_data[PATH_MAX]);

#endif
