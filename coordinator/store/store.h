/* The coordinator's durable state, under one contract: jobs, nodes, events, tokens and some data
 * about itself. Two implementations: store_sqlite (the real one) and store_memory (tests and
 * simulation); tests/conformance/store runs one suite on both.
 *
 * The program owns a store, which outlives the coordinator; the driver is its only user. One
 * thread. Functions may block on the disk.
 *
 * Writing happens between begin and commit. Nothing written is visible to load, list_events or a
 * later opening until commit has returned 0; then all of it is, whatever happens to the process or
 * the machine. After a failing function or commit the transaction must be ended by rollback, which
 * undoes all of it. E_RESOURCE_EXHAUSTED is a full disk; E_DATA_LOSS a damaged file; other failures
 * of the disk are E_UNAVAILABLE or E_INTERNAL.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/token.h"
#include "coordinator/core/action.h"
#include "coordinator/model/cluster.h"
#include "coordinator/model/quota.h"

enum {
    STORE_EVENTS_PAGE_MAX = 1000,
    STORE_EVENTS_KEPT_MAX = 1000000, /* the oldest beyond it are dropped */
    STORE_TOKENS_MAX = 10000,
    STORE_TENANTS_MAX = 1000,
    STORE_AUDIT_PAGE_MAX = 1000,
    STORE_AUDIT_KEPT_MAX = 1000000,
    STORE_REFUSALS_KEPT_MAX = 200000, /* audit entries of what was refused; apart from changes */
    STORE_AUDIT_KEY_MAX = 256,        /* of what makes two entries alike */
    STORE_TOKEN_ID_MAX = 12,          /* hex digits */
    STORE_TOKEN_NAME_MAX = 63,
    STORE_TENANT_MAX = 63,
    STORE_PREFIXES_MAX = 1023,
    STORE_SECRETS_MAX = 20000,
    STORE_SECRET_NAME_MAX = 63,
    STORE_META_KEY_MAX = 79,
    STORE_META_VALUE_MAX = 255,
    STORE_PAST_PAGE_MAX = 1000,
    STORE_PAST_KEPT_BYTES = 1 << 30, /* of changes; the oldest beyond it are folded together */
};

/* A restored store skips what may have happened since its backup. Job numbers, and generations and
 * workers of unfinished jobs, continue this much higher, so that no id, run folder or generation of
 * that time appears twice. Workers that were to start count as started, so that their nodes report
 * their state. Forming groups are dropped, and training groups form again. */
enum { RESTORE_SKIPS_JOBS = 100000, RESTORE_SKIPS = 1000000 };

/* Meta keys: the cluster's id; and when the store was last restored from a backup. That is an
 * administrator's decision that its history is an older one; each restore has a later time than the
 * ones before. */
#define STORE_CLUSTER_KEY  "cluster"
#define STORE_RESTORED_KEY "restored_wall_ms"

/* The meta key of the first job number that may be given out, written by a restore. */
#define STORE_FIRST_JOB_KEY "first_job"

/* Builds a spec from a job's stored JSON. On success the caller owns one reference. */
typedef int (*store_parse_spec_fn)(void *arg, const char *json, struct spec **ret,
                                   struct error *err);

struct store_loader {
    store_parse_spec_fn parse_spec;
    void *arg;
};

struct store_token {
    uint8_t hash[TOKEN_HASH_BYTES];
    char id[STORE_TOKEN_ID_MAX + 1]; /* start of the hash: names it, is no secret */
    char name[STORE_TOKEN_NAME_MAX + 1];
    char role[TOKEN_ROLE_MAX + 1];
    char tenant[STORE_TENANT_MAX + 1]; /* "" = not of one tenant */
    int64_t created_wall_ms;
    int64_t expires_wall_ms, revoked_wall_ms, used_wall_ms; /* 0 = never */
    int64_t uses, uses_max; /* of role agent: new nodes it let in; how many it may, 0 = any */
};

struct store_tenant {
    char name[STORE_TENANT_MAX + 1];
    int weight, guaranteed_slots, limit_slots; /* limit 0 = none */
    struct quotas quotas;
    /* Folders below which its jobs may keep checkpoints, absolute, a line each; "" = any that no
     * other tenant has. */
    char checkpoint_prefixes[STORE_PREFIXES_MAX + 1];
    int64_t created_wall_ms;
};

struct store_secret { /* a named value of a tenant, sealed (common/env/seal.h) */
    char tenant[STORE_TENANT_MAX + 1];
    char name[STORE_SECRET_NAME_MAX + 1];
    char created_by[STORE_TOKEN_NAME_MAX + 1]; /* names of tokens */
    char changed_by[STORE_TOKEN_NAME_MAX + 1];
    int64_t created_wall_ms, changed_wall_ms;
    int64_t used_wall_ms;  /* about, 0 = never */
    const uint8_t *sealed; /* borrowed for the call */
    size_t sealed_bytes;
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
typedef void (*store_token_fn)(void *arg, const struct store_token *token);
typedef void (*store_tenant_fn)(void *arg, const struct store_tenant *tenant);
typedef void (*store_secret_fn)(void *arg, const struct store_secret *secret);
typedef void (*store_audit_fn)(void *arg, const struct store_audit *entry);

struct store;

struct store_verbs {
    /* Fill an empty cluster with all nodes and jobs as last committed. On failure the cluster is
     * half-filled: the caller frees it. Not inside a transaction. */
    int (*load)(struct store *store, const struct store_loader *loader, struct cluster *cluster,
                struct error *err);

    int (*begin)(struct store *store, struct error *err);
    int (*put_job)(struct store *store, const struct job *job, struct error *err);
    int (*put_node)(struct store *store, const struct node *node, struct error *err);
    /* A token with the same hash, a tenant with the same name is replaced. */
    int (*put_token)(struct store *store, const struct store_token *token, struct error *err);
    int (*put_tenant)(struct store *store, const struct store_tenant *tenant, struct error *err);
    /* One of the same tenant and name is replaced. Secrets have no past: what is replaced or
     * removed is in no history. */
    int (*put_secret)(struct store *store, const struct store_secret *secret, struct error *err);
    int (*remove_secret)(struct store *store, const char *tenant, const char *name,
                         struct error *err); /* 0 also if it does not exist */
    int (*put_audit)(struct store *store, const struct store_audit *entry, struct error *err);
    int (*put_meta)(struct store *store, const char *key, const char *value, struct error *err);
    int (*record)(struct store *store, const struct record *record, uint64_t *ret_seq,
                  struct error *err);
    /* Delete the job's row; its events stay until there are too many. */
    int (*forget_job)(struct store *store, uint64_t sequence, struct error *err);
    int (*commit)(struct store *store, struct error *err);
    void (*rollback)(struct store *store);

    /* `fn` is called for each, in order of their numbers; it must not call the store. */
    int (*list_events)(struct store *store, const struct store_events_query *query,
                       store_event_fn fn, void *arg, struct error *err);
    int (*list_tokens)(struct store *store, store_token_fn fn, void *arg, struct error *err);
    int (*list_tenants)(struct store *store, store_tenant_fn fn, void *arg, struct error *err);
    int (*list_secrets)(struct store *store, store_secret_fn fn, void *arg, struct error *err);
    /* `job` of the query is not used. */
    int (*list_audit)(struct store *store, const struct store_events_query *query,
                      store_audit_fn fn, void *arg, struct error *err);
    /* Each node, tenant or job at that event, ascending. E_OUT_OF_RANGE for an event outside
     * past_range. */
    int (*list_past)(struct store *store, const struct store_past_query *query, store_past_fn fn,
                     void *arg, struct error *err);
    int (*past_range)(struct store *store, int64_t wall_ms, struct store_past_range *ret,
                      struct error *err);
    /* E_NOT_FOUND if the key was never put. `ret` has STORE_META_VALUE_MAX + 1 bytes. */
    int (*get_meta)(struct store *store, const char *key, char *ret, struct error *err);

    /* Copy everything to the file `path` (absolute; E_ALREADY_EXISTS if it exists) while the store
     * is in use. Begin once, then step outside of transactions until *ret_done; the copy is then
     * durable under its name. A failing step, or end, abandons it and leaves no file. One at a
     * time. E_UNIMPLEMENTED if there is nothing to copy. */
    int (*backup_begin)(struct store *store, const char *path, struct error *err);
    int (*backup_step)(struct store *store, bool *ret_done, struct error *err);
    void (*backup_end)(struct store *store);

    /* The number of the newest event that is durable; 0 = none. */
    uint64_t (*newest_event)(const struct store *store);
    /* Check the file under the store. E_DATA_LOSS if it was removed, exchanged or cut while in use:
     * nothing may be acknowledged then (commit fails too). NULL if there is no file. */
    int (*look)(struct store *store, struct error *err);
    /* Write beside the file how far it is durable, so that an older copy of it is noticed at the
     * next start. Call it outside of transactions. NULL if there is no file. */
    void (*mark)(struct store *store);

    void (*close)(struct store *store); /* an open transaction is undone; frees the store */
};

struct store { /* first member of every implementation */
    const struct store_verbs *verbs;
};

static inline void store_close(struct store *store) /* NULL is fine */
{
    if (store)
        store->verbs->close(store);
}

#endif
