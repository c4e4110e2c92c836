/* The coordinator's data directory belongs to one coordinator at a time: an exclusive flock on
 * DATA/lock, which the kernel drops when the holder dies, however it dies. The file holds the
 * holder's pid, for people.
 */
#ifndef STORE_DATA_DIR_H
#define STORE_DATA_DIR_H

#include "common/base/error.h"

/* E_FAILED_PRECONDITION names the pid of the coordinator that has it. */
int data_dir_lock(const char *data_dir, int *ret_fd, struct error *err);
void data_dir_unlock(int fd); /* -1 is fine */

#endif
