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
#include "coordinator/model/cluster.h"
#include "coordinator/store/history.h"
#include "coordinator/store/tenancy.h"

/* Builds a spec from a job's stored JSON. On success the caller owns one reference. */
typedef int (*store_parse_spec_fn)(void *arg, const char *json, struct spec **ret,
                                   struct error *err);

struct store_loader {
    store_parse_spec_fn parse_spec;
    void *arg;
};

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
    /* One of the same tenant and name is replaced. Secrets are in no history. */
    int (*put_secret)(struct store *store, const struct store_secret *secret, struct error *err);
    int (*remove_secret)(struct store *store, const char *tenant, const char *name,
                         struct error *err); /* 0 also if there is none */
    int (*put_audit)(struct store *store, const struct store_audit *entry, struct error *err);
    int (*put_meta)(struct store *store, const char *key, const char *value, struct error *err);
    int (*record)(struct store *store, const struct record *record, uint64_t *ret_seq,
                  struct error *err);
    /* Delete the row, 0 also if there is none; events stay until there are too many. */
    int (*forget_job)(struct store *store, uint64_t sequence, struct error *err);
    int (*forget_node)(struct store *store, const char *name, struct error *err);
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
