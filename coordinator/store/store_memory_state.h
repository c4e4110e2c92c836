/* An open store in memory. Only for the files of store_memory. */
#ifndef STORE_STORE_MEMORY_STATE_H
#define STORE_STORE_MEMORY_STATE_H

#include "common/base/map.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store.h"

struct document { /* of a job (with spec and secret) or a node */
    char *text, *spec;
    size_t size;
    uint8_t secret[SECRET_BYTES];
};

struct pending { /* one write of the open transaction */
    enum {
        PENDING_JOB,
        PENDING_FORGET,
        PENDING_NODE,
        PENDING_NO_NODE,
        PENDING_TOKEN,
        PENDING_TENANT,
        PENDING_SECRET,
        PENDING_NO_SECRET,
        PENDING_AUDIT,
        PENDING_META,
        PENDING_EVENT,
    } kind;
    char key[STORE_META_KEY_MAX + 1];
    uint64_t sequence;
    struct document *document;
    char *value;
    struct store_token token;
    struct store_tenant tenant;
    struct store_secret *secret;
    struct store_audit *audit;
    struct store_event *event;
    struct pending *next;
};

struct change {   /* what a node, tenant or job became */
    uint64_t seq; /* the newest event then */
    enum store_past_kind kind;
    char key[STORE_META_KEY_MAX + 1];
    uint64_t sequence;
    char *text, *spec; /* text "" = forgotten, with its spec */
};

struct store_memory {
    struct store store;
    struct map jobs; /* by sequence */
    struct strmap nodes, meta;
    struct store_token *tokens;
    int tokens_count;
    struct store_tenant tenants[STORE_TENANTS_MAX];
    int tenants_count;
    struct strmap secrets;    /* store_memory_secrets.c */
    struct map events, audit; /* by number */
    struct map history;       /* struct change, in order */
    struct map digests;       /* event -> digest of the state as long as it was the newest */
    uint64_t digest;
    uint64_t last_event, open_event, last_audit, open_audit;
    bool in_transaction;
    struct pending *first, **last;
    int failing_commits, failing_code;
    int failing_loads, failing_load_code;
};

static inline struct store_memory *self_of(struct store *store)
{
    return (struct store_memory *)store;
}

#endif
