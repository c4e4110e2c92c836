/* The rows of the store about the past: events, the audit trail, and earlier states of
 * nodes, tenants and jobs. Plain data; what a callback gets is borrowed for the call (store.h).
 */
#ifndef STORE_HISTORY_H
#define STORE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/token.h"
#include "coordinator/core/action.h"
#include "coordinator/store/tenancy.h"

enum {
    STORE_EVENTS_PAGE_MAX = 1000,
    STORE_EVENTS_KEPT_MAX = 1000000, /* the oldest beyond it are dropped */
    STORE_AUDIT_PAGE_MAX = 1000,
    STORE_AUDIT_KEPT_MAX = 1000000,
    STORE_REFUSALS_KEPT_MAX = 200000, /* audit entries of what was refused; apart from changes */
    STORE_AUDIT_KEY_MAX = 256,        /* of what makes two entries alike */
    STORE_PAST_PAGE_MAX = 1000,
    STORE_PAST_KEPT_BYTES = 1 << 30, /* of changes; the oldest beyond it are folded together */
};

struct store_audit { /* proto AuditEntry; numbers rise by one from 1 */
    uint64_t seq;    /* given by the store */
    int64_t wall_ms;
    char token[STORE_TOKEN_ID_MAX + 1];
    char token_name[STORE_TOKEN_NAME_MAX + 1];
    char role[TOKEN_ROLE_MAX + 1];
    char tenant[STORE_TENANT_MAX + 1];
    char carrier[8];
    char peer[64];
    char method[32];
    char object[256];
    char result[32];
    char text[256];
};

struct store_event { /* a record with its number; numbers rise by one from 1 */
    uint64_t seq;
    struct record record;
};

struct store_events_query {
    const char *job; /* NULL or "" = of all jobs and nodes */
    uint64_t after;  /* only greater numbers */
    int limit;       /* 1..STORE_EVENTS_PAGE_MAX */
    bool newest;     /* the last `limit` ones (still in ascending order), not the first */
};

/* The past. Each change of a job, node or tenant is stored with the events, in the same
 * transaction. The state of an object at event N is its last change stored when N or an older event
 * was the newest. The state at the newest event therefore equals load. A transaction is visible as
 * a whole or not at all: its changes count from its last event on (record events first). */
enum store_past_kind { STORE_PAST_NODE, STORE_PAST_TENANT, STORE_PAST_JOB };

struct store_past_query {
    enum store_past_kind kind;
    uint64_t seq;            /* at this event */
    const char *after;       /* nodes, tenants: only greater names; NULL = from the first */
    uint64_t after_sequence; /* jobs: only greater numbers */
    int limit;               /* 1..STORE_PAST_PAGE_MAX */
};

struct store_past {
    const char *name;     /* of a node or tenant */
    uint64_t sequence;    /* of a job */
    const char *document; /* for document.h; "" = it was forgotten before that */
    const char *spec;     /* of a job: its JSON; "" for others */
    const char *now;      /* what is stored today; "" = nothing */
};

struct store_past_range {
    uint64_t first, last; /* events with a state that can be rebuilt, both included */
    uint64_t at;          /* the newest event at or before the requested time; less than `first` if
                           * there is none any more */
};

typedef void (*store_past_fn)(void *arg, const struct store_past *past);
typedef void (*store_event_fn)(void *arg, const struct store_event *event);
typedef void (*store_audit_fn)(void *arg, const struct store_audit *entry);

#endif
