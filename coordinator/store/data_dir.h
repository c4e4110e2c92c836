/* The coordinator's data directory belongs to one coordinator at a time. There is an exclusive
 * flock on the directory itself, and one on DATA/lock, which contains the owner's pid for people.
 * The kernel releases both when the owner dies in any way. The lock on the directory is the one
 * that counts, because DATA/lock can be deleted. File systems that cannot lock directories (NFS)
 * have only the lock on the file. */
#ifndef STORE_DATA_DIR_H
#define STORE_DATA_DIR_H

#include "common/base/error.h"

struct data_dir_lock {
    int folder, file; /* -1 = none */
};

#define DATA_DIR_UNLOCKED ((struct data_dir_lock){-1, -1})

/* E_FAILED_PRECONDITION names the pid of the coordinator that has it. */
int data_dir_lock(const char *data_dir, struct data_dir_lock *ret, struct error *err);
void data_dir_unlock(struct data_dir_lock *lock); /* DATA_DIR_UNLOCKED is fine */

#endif
