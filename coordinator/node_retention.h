/* Forgets lost nodes (core/node_forget.h), so that ever new names do not fill the cluster:
 *
 * - beyond the KEEP_NODES that were lost last, those that are lost for an hour. The hour is not
 *   waited for while the cluster is nearly full.
 * - those that were not seen for KEEP_NODES_MS; three times as long if an administrator cordoned or
 *   drained them
 *
 * Sends EVENT_NODES_FORGET once in RETENTION_EVERY_MS; while there is more, in RETENTION_NODES_MS;
 * after a start as soon as nodes that do not return are lost. A wall clock that jumps makes
 * nothing old (retention.h); then only a nearly full cluster forgets.
 * Owned by the driver; loop thread only.
 */
#ifndef COORDINATOR_NODE_RETENTION_H
#define COORDINATOR_NODE_RETENTION_H

#include <stdint.h>

#include "common/loop/loop.h"
#include "coordinator/api_rpc/service_host.h"
#include "coordinator/core/limits.h"

struct retention;

enum {
    RETENTION_KEEP_NODES = 5000,
    RETENTION_KEEP_NODES_DAYS = 30,
    RETENTION_NODES_BATCH = 256, /* in one transaction */
    RETENTION_NODES_MS = 100,    /* while there is more */
    RETENTION_NODES_FIRST_MS = RESTORED_LEASE_MS + 2000,
    RETENTION_LOST_MS = 3600000,   /* nodes lost for less stay, however many */
    RETENTION_SET_ASIDE_TIMES = 3, /* cordoned and drained nodes are kept this many times as long */
    RETENTION_NODES_NEARLY_FULL = CLUSTER_NODES_MAX / 4 * 3,
};

struct node_retention {
    int keep;        /* 0 = RETENTION_KEEP_NODES */
    int64_t keep_ms; /* 0 = RETENTION_KEEP_NODES_DAYS */
    struct loop *loop;
    struct service_host host;
    struct retention *ages; /* knows whether ages count */
    struct loop_timer timer;
};

/* loop, host and ages are set. */
void node_retention_start(struct node_retention *nodes);
void node_retention_fini(struct node_retention *nodes); /* zeroed memory is allowed */

#endif
