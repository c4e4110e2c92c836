/* Forgets ended jobs so that the store does not grow for ever: of each tenant those beyond the KEEP
 * that ended last (what never started goes first), of the tenant with most where the cluster keeps
 * more than RETENTION_ALL_MAX, and those that ended longer ago than KEEP_MS; their rows, output and
 * series. Never an active job, nor the newest of all (its number is how a restart knows the next).
 * Events stay until the log is full (STORE_EVENTS_KEPT_MAX).
 *
 * A pass is small (RETENTION_BATCH jobs, one transaction) and runs at the end of a turn, when core
 * has nothing under way; while there is more to forget passes follow with pauses between them.
 * Folders of output without a job, left by a crash between row and files, are removed after a
 * start. Owned by the driver; loop thread only.
 *
 * A wall clock that jumps makes nothing old: after a jump (against the monotonic clock, or at the
 * start against the newest event) nothing is forgotten by age for an hour, in which somebody can
 * set it right. The count of jobs does not ask the clock.
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
    RETENTION_ALL_MAX = 100000,       /* ended jobs of all tenants */
    RETENTION_EVERY_MS = 60000,       /* between passes that found nothing more */
    RETENTION_PAUSE_MS = 20,          /* while there is more */
    RETENTION_JUMP_MS = 5000,         /* of the wall clock against the monotonic one */
    RETENTION_AWAY_MS = 24 * 3600000, /* the newest event may be so old at a start */
    RETENTION_DOUBT_MS = 3600000,     /* no age is believed so long after a jump */
};

struct retention {
    int keep_jobs;   /* of a tenant that has no quota of its own; 0 = RETENTION_KEEP_JOBS */
    int64_t keep_ms; /* 0 = RETENTION_KEEP_DAYS */
    struct loop_timer timer;
    int64_t clock_offset_ms; /* wall clock less the monotonic one, as of the last pass */
    int64_t ages_after_ms;   /* no age is believed before */
    bool due, swept;
    uint64_t measured; /* jobs up to this number: what is kept of them is known */
    char **names;      /* of folders still to be looked at after the start; one allocation */
    int next_name;
};

/* Before the first step of a start: did the clock go wrong while no coordinator ran? A long pause
 * looks the same. */
void retention_compare_clock(struct driver *driver);

void retention_start(struct driver *driver);
void retention_fini(struct driver *driver);

/* At the end of a turn, after its commit. On failure nothing was forgotten. */
int retention_turn_end(struct driver *driver, struct error *err);

#endif
