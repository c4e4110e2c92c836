/* A damaged store: examining it, and copying what is readable. Without a coordinator; one
 * thread. */
#ifndef STORE_STORE_SQLITE_SALVAGE_H
#define STORE_STORE_SQLITE_SALVAGE_H

#include <stdbool.h>

#include "coordinator/store/meta.h"
#include "coordinator/store/store.h"

struct store_facts {
    char cluster[STORE_META_VALUE_MAX + 1];
    int schema, jobs, events, audit; /* the last two: the newest numbers */
};

/* Examine a file, or that of a data directory. Every page and document is read, and compared with
 * the directory's mark. E_DATA_LOSS names the first damage; the facts before it are filled. Nothing
 * is written. */
int store_sqlite_examine(const char *path, struct store_facts *ret, struct error *err);

struct store_salvage {
    int jobs, events, others; /* rows that were copied */
    int dropped;              /* rows that were found but are invalid */
    bool damaged;             /* and pages could not be read */
};

/* Copy what can be read of a file, or of a data directory's, into the new file `to`, of today's
 * schema: to be begun with as with a backup (store_sqlite_restore). */
int store_sqlite_salvage(const char *from, const char *to, struct store_salvage *ret,
                         struct error *err);

#endif
