/* What the service gets from the coordinator's object: its options, the driver's functions, and the
 * changes that the driver writes for it. And the service's counts. Loop thread only. */
#ifndef API_RPC_SERVICE_HOST_H
#define API_RPC_SERVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "coordinator/core/event.h"
#include "coordinator/store/store.h"

struct env;
struct loop;

/* A change to write that is not core's jobs, nodes or events. */
struct change {
    enum change_kind { CHANGE_TOKEN, CHANGE_TENANT, CHANGE_SECRET, CHANGE_AUDIT } kind;
    uint64_t request; /* answered by service_written once it is on disk; 0 = no request waits */
    bool folded;      /* an audit entry that was folded: nothing is written */
    union {
        struct store_token token;
        struct store_tenant tenant;
        struct { /* written in its state at the turn's end: service_store_secret */
            char tenant[STORE_TENANT_MAX + 1], name[STORE_SECRET_NAME_MAX + 1];
        } secret;
        struct store_audit audit;
    };
};

/* What the driver provides. */
struct service_host {
    void *self;
    const struct cluster *(*cluster)(void *self);
    /* Step with this event now. kind, request and the event's own part are set. */
    void (*step)(void *self, struct event *event);
    /* Write this in the turn's transaction (copied). Lost while changes are refused. */
    void (*write)(void *self, const struct change *change);
    /* False while changes are refused; err has the reason. */
    bool (*writable)(void *self, struct error *err);
    /* False while the cluster differs from the store; err has the reason. */
    bool (*readable)(void *self, struct error *err);
};

struct service_options {
    struct env *env;
    struct loop *loop;
    struct store *store;
    struct service_host host;
    const char *data_dir, *version, *commit, *cluster_id;
    int64_t restored_wall_ms; /* when the store was restored from a backup; 0 = it was not */
    bool keyed;               /* connections prove keys: the key identifies a node, not its token */
    const char *secrets_key_path; /* absolute; NULL = DATA/secrets.key */
    const char *secrets_key;      /* keys instead of that file; NULL, "" = none */
    const char *pin;         /* of the cluster's key, given out with tokens; NULL or "" = none */
    int64_t channel_idle_ms; /* a terminal without a byte ends after it; 0 = RELAY_IDLE_MS */
    const struct log *log;
};

/* For /metrics. */
struct service_stats {
    uint64_t calls, failures, events_recorded;
    uint32_t open, waiting;
    uint64_t metrics_memory_bytes;
    uint64_t shared;         /* answers of REST reused from an earlier call; filled by it */
    const uint64_t *refused; /* [LIMIT_COUNT]: calls refused by a limit */
};

#endif
