/* Backups of store_sqlite: making one while the store is in use, and beginning a store from one.
 * One thread. */
#ifndef STORE_STORE_SQLITE_BACKUP_H
#define STORE_STORE_SQLITE_BACKUP_H

#include <stdbool.h>

#include "coordinator/store/store.h"

int store_sqlite_backup_begin(struct store *, const char *path, struct error *);
int store_sqlite_backup_step(struct store *, bool *ret_done, struct error *);
void store_sqlite_backup_end(struct store *);

/* Make DATA/muster.db from a backup; `data_dir` must not have one (E_ALREADY_EXISTS). The file is
 * checked first; after a crash there is either none, or all of it. Agents know events since the
 * backup that the store does not, so those are skipped (RESTORE_SKIPS, store.h). */
int store_sqlite_restore(const char *data_dir, const char *backup, struct error *err);

/* Begin an empty store although the folder had one (tokens or a mark are there): its mark is
 * forgotten. E_ALREADY_EXISTS if there is a store. */
int store_sqlite_begin_new(const char *data_dir, struct error *err);

#endif
