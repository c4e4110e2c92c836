/* Forgets ended jobs so that the store does not grow for ever: those beyond the KEEP that ended
 * last, and those that ended longer ago than KEEP_MS; their rows, output and series. Never an
 * active job, nor the newest of all (its number is how a restart knows the next). Events stay until
 * the log is full (STORE_EVENTS_KEPT_MAX).
 *
 * A pass is small (RETENTION_BATCH jobs, one transaction) and runs at the end of a turn, when core
 * has nothing under way; while there is more to forget passes follow with pauses between them.
 * Folders of output without a job, left by a crash between row and files, are removed after a
 * start. Owned by the driver; loop thread only.
 */
#ifndef COORDINATOR_RETENTION_H
#define COORDINATOR_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/loop/loop.h"

struct driver;

enum {
    RETENTION_KEEP_JOBS = 10000,
    RETENTION_KEEP_DAYS = 30,
    RETENTION_BATCH = 32,
    RETENTION_SCAN_MAX = 20000, /* jobs looked at in a pass */
    RETENTION_EVERY_MS = 60000, /* between passes that found nothing more */
    RETENTION_PAUSE_MS = 20,    /* while there is more */
};

struct retention {
    int keep_jobs;   /* 0 = RETENTION_KEEP_JOBS */
    int64_t keep_ms; /* 0 = RETENTION_KEEP_DAYS */
    struct loop_timer timer;
    bool due, swept;
    char **names; /* of folders still to be looked at after the start; one allocation */
    int next_name;
};

void retention_start(struct driver *driver);
void retention_fini(struct driver *driver);

/* At the end of a turn, after its commit. On failure nothing was forgotten. */
int retention_turn_end(struct driver *driver, struct error *err);

#endif
