/* Forgets ended jobs, so that the store does not grow for ever, with their rows, output and series:
 *
 * - of each tenant those beyond the KEEP that ended last (jobs that never started first)
 * - of the tenant with the most, if the cluster has more than RETENTION_ALL_MAX
 * - those that ended longer than KEEP_MS ago
 *
 * Never an active job, nor the newest of all, because a restart needs its number. Events stay until
 * the log is full (STORE_EVENTS_KEPT_MAX).
 *
 * A pass is small (RETENTION_BATCH jobs, one transaction). It runs at the end of a turn, when core
 * has nothing in progress. If there is more to forget, passes follow with pauses between them.
 * Output folders without a job, left by a crash between row and files, are removed after a start.
 * Owned by the driver; loop thread only.
 *
 * A wall clock that jumps makes nothing old. After a jump (against the monotonic clock, or at the
 * start against the newest event) nothing is forgotten by age for an hour, in which an
 * administrator can correct it. The limit on the number of jobs does not depend on the clock.
 * Lost nodes are forgotten by node_retention.h.
 */
#ifndef COORDINATOR_RETENTION_H
#define COORDINATOR_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/loop/loop.h"
#include "coordinator/store/store.h"

struct cluster;
struct env;
struct service;

enum {
    RETENTION_KEEP_JOBS = 10000,
    RETENTION_KEEP_DAYS = 30,
    RETENTION_BATCH = 32,
    RETENTION_ALL_MAX = 100000,       /* ended jobs of all tenants */
    RETENTION_EVERY_MS = 60000,       /* between passes that found nothing more */
    RETENTION_PAUSE_MS = 20,          /* while there is more */
    RETENTION_JUMP_MS = 5000,         /* of the wall clock against the monotonic one */
    RETENTION_AWAY_MS = 24 * 3600000, /* the greatest normal age of the newest event at a start */
    RETENTION_DOUBT_MS = 3600000,     /* after a jump ages are ignored this long */
};

struct retention {
    int keep_jobs;   /* of a tenant without a quota; 0 = RETENTION_KEEP_JOBS */
    int64_t keep_ms; /* 0 = RETENTION_KEEP_DAYS */
    struct env *env; /* this and the following are set before retention_compare_clock */
    struct loop *loop;
    struct store *store;
    struct service *service;
    const struct log *log;
    const char *data_dir;    /* NULL: no folders are checked after the start */
    struct cluster *cluster; /* of this turn */
    struct loop_timer timer;
    int64_t clock_offset_ms; /* wall clock minus the monotonic one, in the last pass */
    int64_t ages_after_ms;   /* ages are ignored before this time */
    bool due, swept;
    uint64_t measured; /* jobs up to this number are measured */
    char **names;      /* of folders still to be checked after the start; one allocation */
    int next_name;
};

/* Before the first step of a start: check whether the clock jumped while no coordinator ran. A long
 * pause looks the same. */
void retention_compare_clock(struct retention *retention);

void retention_start(struct retention *retention);
void retention_fini(struct retention *retention); /* zeroed memory is allowed */

int64_t retention_wall_ms(const struct retention *retention);
/* False for an hour after the wall clock jumped. Looks at the clock. */
bool retention_ages_count(struct retention *retention);

/* At the end of a turn, after its commit; not while changes are refused. On failure nothing was
 * forgotten. */
int retention_turn_end(struct retention *retention, struct cluster *cluster, struct error *err);

#endif
