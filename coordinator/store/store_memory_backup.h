/* Backups of store_memory, as store_sqlite_backup.h has them. For simulation and tests. */
#ifndef STORE_STORE_MEMORY_BACKUP_H
#define STORE_STORE_MEMORY_BACKUP_H

#include "coordinator/store/store.h"

/* store_memory_copy: a backup, the committed content in a store of its own. The other makes a
 * restored store of one (a new store, with the skips of store.h). The caller closes it. */
struct store *store_memory_copy(struct store *store);
struct store *store_memory_restore(struct store *backup, int64_t wall_ms);

#endif
