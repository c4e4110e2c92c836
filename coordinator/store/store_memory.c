#include "coordinator/store/store_memory.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_memory_digest.h"
#include "coordinator/store/store_memory_past.h"
#include "coordinator/store/store_memory_secrets.h"

static void document_free(struct document *document)
{
    if (document) {
        free(document->text);
        free(document->spec);
        free(document);
    }
}

static void forget_pending(struct store_memory *self)
{
    while (self->first) {
        struct pending *pending = self->first;
        self->first = pending->next;
        document_free(pending->document);
        free(pending->value);
        free(pending->event);
        free(pending->audit);
        free(pending->secret);
        free(pending);
    }
    self->last = &self->first;
}

static int out_of_memory(struct error *err)
{
    return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static struct pending *add_pending(struct store_memory *self)
{
    insist(self->in_transaction);
    struct pending *pending = calloc(1, sizeof(*pending));
    if (pending) {
        *self->last = pending;
        self->last = &pending->next;
    }
    return pending;
}

static int begin(struct store *store, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    never(self->in_transaction);
    self->in_transaction = true;
    self->open_event = self->last_event;
    self->open_audit = self->last_audit;
    return 0;
}

static int put_job(struct store *store, const struct job *job, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    struct document *document = pending ? calloc(1, sizeof(*document)) : NULL;
    if (!document)
        return out_of_memory(err);
    pending->kind = PENDING_JOB;
    pending->sequence = job->sequence;
    pending->document = document;
    memcpy(document->secret, job->secret, SECRET_BYTES);
    document->spec = strdup(job->spec->json);
    struct buf buf;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    int rc = document_write_job(job, &buf, err);
    document->text = rc ? NULL : buf_take(&buf, &document->size);
    buf_fini(&buf);
    return !rc && (!document->text || !document->spec) ? out_of_memory(err) : rc;
}

static int forget_job(struct store *store, uint64_t sequence, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    if (!pending)
        return out_of_memory(err);
    pending->kind = PENDING_FORGET;
    pending->sequence = sequence;
    return 0;
}

static int put_node(struct store *store, const struct node *node, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    struct document *document = pending ? calloc(1, sizeof(*document)) : NULL;
    if (!document)
        return out_of_memory(err);
    pending->kind = PENDING_NODE;
    pending->document = document;
    (void)str_copy(pending->key, sizeof(pending->key), node->name);
    struct buf buf;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    int rc = document_write_node(node, &buf, err);
    document->text = rc ? NULL : buf_take(&buf, &document->size);
    buf_fini(&buf);
    return !rc && !document->text ? out_of_memory(err) : rc;
}

static int forget_node(struct store *store, const char *name, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    if (!pending)
        return out_of_memory(err);
    pending->kind = PENDING_NO_NODE;
    return str_copy(pending->key, sizeof(pending->key), name);
}

static int put_token(struct store *store, const struct store_token *token, struct error *err)
{
    struct store_memory *self = self_of(store);
    if (self->tokens_count >= STORE_TOKENS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "more than %d tokens", STORE_TOKENS_MAX);
    struct pending *pending = add_pending(self);
    if (!pending)
        return out_of_memory(err);
    pending->kind = PENDING_TOKEN;
    pending->token = *token;
    return 0;
}

static int put_tenant(struct store *store, const struct store_tenant *tenant, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    if (!pending)
        return out_of_memory(err);
    pending->kind = PENDING_TENANT;
    pending->tenant = *tenant;
    return 0;
}

static int add_secret(struct store *store, const struct store_secret *secret, bool gone,
                      struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    if (!pending || !(pending->secret = store_memory_secret_copy(secret)))
        return out_of_memory(err);
    pending->kind = gone ? PENDING_NO_SECRET : PENDING_SECRET;
    return 0;
}

static int put_secret(struct store *store, const struct store_secret *secret, struct error *err)
{
    return add_secret(store, secret, false, err);
}

static int remove_secret(struct store *store, const char *tenant, const char *name,
                         struct error *err)
{
    struct store_secret secret = {0};
    (void)str_copy(secret.tenant, sizeof(secret.tenant), tenant);
    (void)str_copy(secret.name, sizeof(secret.name), name);
    return add_secret(store, &secret, true, err);
}

static int put_audit(struct store *store, const struct store_audit *entry, struct error *err)
{
    struct store_memory *self = self_of(store);
    struct pending *pending = add_pending(self);
    struct store_audit *audit = pending ? calloc(1, sizeof(*audit)) : NULL;
    if (!audit)
        return out_of_memory(err);
    pending->kind = PENDING_AUDIT;
    pending->audit = audit;
    *audit = *entry;
    audit->seq = ++self->open_audit;
    return 0;
}

static int put_meta(struct store *store, const char *key, const char *value, struct error *err)
{
    struct pending *pending = add_pending(self_of(store));
    if (!pending)
        return out_of_memory(err);
    pending->kind = PENDING_META;
    if (str_copy(pending->key, sizeof(pending->key), key) || strlen(value) > STORE_META_VALUE_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "meta '%s' is too long", key);
    pending->value = strdup(value);
    return pending->value ? 0 : out_of_memory(err);
}

static int record(struct store *store, const struct record *record, uint64_t *ret_seq,
                  struct error *err)
{
    struct store_memory *self = self_of(store);
    struct pending *pending = add_pending(self);
    struct store_event *event = pending ? calloc(1, sizeof(*event)) : NULL;
    if (!event)
        return out_of_memory(err);
    pending->kind = PENDING_EVENT;
    pending->event = event;
    event->seq = ++self->open_event;
    event->record = *record;
    *ret_seq = event->seq;
    return 0;
}

static int apply_token(struct store_memory *self, const struct store_token *token)
{
    for (int i = 0; i < self->tokens_count; i++)
        if (memcmp(self->tokens[i].hash, token->hash, sizeof(token->hash)) == 0) {
            self->tokens[i] = *token;
            return 0;
        }
    struct store_token *tokens =
        realloc(self->tokens, sizeof(*tokens) * ((size_t)self->tokens_count + 1));
    if (!tokens)
        return E_RESOURCE_EXHAUSTED;
    self->tokens = tokens;
    tokens[self->tokens_count++] = *token;
    return 0;
}

static int apply_tenant(struct store_memory *self, const struct store_tenant *tenant)
{
    int at = 0;
    while (at < self->tenants_count && strcmp(self->tenants[at].name, tenant->name) != 0)
        at++;
    if (at == STORE_TENANTS_MAX)
        return E_RESOURCE_EXHAUSTED;
    char *text = store_memory_tenant_text(tenant);
    char *old = at < self->tenants_count ? store_memory_tenant_text(&self->tenants[at]) : NULL;
    store_memory_change_named(self, STORE_PAST_TENANT, tenant->name, old, text);
    free(old);
    free(text);
    self->tenants[at] = *tenant;
    if (at == self->tenants_count)
        self->tenants_count++;
    return 0;
}

static int apply(struct store_memory *self, struct pending *pending)
{
    void *old = NULL;
    int rc = 0;
    switch (pending->kind) {
    case PENDING_JOB:
        rc = map_set(&self->jobs, pending->sequence, pending->document, &old);
        store_memory_change_job(self, pending->sequence, old, pending->document);
        document_free(old);
        break;
    case PENDING_FORGET:
        old = map_remove(&self->jobs, pending->sequence);
        if (old)
            store_memory_change_job(self, pending->sequence, old, NULL);
        document_free(old);
        break;
    case PENDING_NODE:
        rc = strmap_set(&self->nodes, pending->key, pending->document, &old);
        store_memory_change_named(self, STORE_PAST_NODE, pending->key,
                                  old ? ((const struct document *)old)->text : NULL,
                                  pending->document->text);
        document_free(old);
        break;
    case PENDING_NO_NODE: {
        struct document *gone = strmap_remove(&self->nodes, pending->key);
        if (gone)
            store_memory_change_named(self, STORE_PAST_NODE, pending->key, gone->text, NULL);
        document_free(gone);
        break;
    }
    case PENDING_TOKEN:
        return apply_token(self, &pending->token);
    case PENDING_TENANT:
        return apply_tenant(self, &pending->tenant);
    case PENDING_SECRET:
    case PENDING_NO_SECRET: {
        struct store_secret *secret = pending->secret;
        pending->secret = NULL;
        return store_memory_apply_secret(self, secret, pending->kind == PENDING_NO_SECRET);
    }
    case PENDING_AUDIT:
        rc = map_set(&self->audit, pending->audit->seq, pending->audit, NULL);
        break;
    case PENDING_META:
        rc = strmap_set(&self->meta, pending->key, pending->value, &old);
        free(old);
        break;
    case PENDING_EVENT:
        rc = map_set(&self->events, pending->event->seq, pending->event, NULL);
        break;
    }
    if (!rc) {
        pending->document = NULL;
        pending->value = NULL;
        pending->event = NULL;
        pending->audit = NULL;
    }
    return rc;
}

static int commit(struct store *store, struct error *err)
{
    struct store_memory *self = self_of(store);
    insist(self->in_transaction);
    if (self->failing_commits > 0) {
        self->failing_commits--;
        return error_set(err, self->failing_code, "commit failed, as asked for by the test");
    }
    for (struct pending *pending = self->first; pending; pending = pending->next)
        insist(!apply(self, pending)); /* a simulated disk must not tear for lack of memory */
    self->last_event = self->open_event;
    self->last_audit = self->open_audit;
    store_memory_note_digest(self);
    while (self->audit.count > STORE_AUDIT_KEPT_MAX)
        free(map_remove(&self->audit, map_first(&self->audit)->key));
    while (self->events.count > STORE_EVENTS_KEPT_MAX)
        free(map_remove(&self->events, map_first(&self->events)->key));
    forget_pending(self);
    self->in_transaction = false;
    return 0;
}

static void rollback(struct store *store)
{
    struct store_memory *self = self_of(store);
    forget_pending(self);
    self->in_transaction = false;
}

static int load_job(const struct document *document, const struct store_loader *loader,
                    struct cluster *cluster, struct error *err)
{
    struct job *job = calloc(1, sizeof(*job));
    if (!job)
        return out_of_memory(err);
    int rc = document_read_job(document->text, document->size, job, err);
    if (!rc)
        rc = loader->parse_spec(loader->arg, document->spec, &job->spec, err);
    memcpy(job->secret, document->secret, SECRET_BYTES);
    if (!rc)
        rc = cluster_add_job(cluster, job, err);
    if (rc) {
        error_wrap(err, "stored job %s", job->id);
        job_free(job);
    }
    return rc;
}

static int load(struct store *store, const struct store_loader *loader, struct cluster *cluster,
                struct error *err)
{
    struct store_memory *self = self_of(store);
    int rc = 0;
    if (self->failing_loads > 0) {
        self->failing_loads--;
        return error_set(err, self->failing_load_code, "load failed, as asked for by the test");
    }
    for (struct map_entry *e = strmap_first(&self->nodes); e && !rc; e = map_next(e)) {
        const struct document *document = e->value;
        struct node *node = calloc(1, sizeof(*node));
        rc = node ? document_read_node(document->text, document->size, node, err)
                  : out_of_memory(err);
        if (!rc)
            rc = cluster_add_node(cluster, node, err);
        if (rc)
            free(node);
    }
    for (struct map_entry *e = map_first(&self->jobs); e && !rc; e = map_next(e))
        rc = load_job(e->value, loader, cluster, err);
    return rc;
}

static bool wanted(const struct store_events_query *query, const struct store_event *event)
{
    return event->seq > query->after &&
           (!query->job || !*query->job || strcmp(query->job, event->record.job) == 0);
}

static int list_events(struct store *store, const struct store_events_query *query,
                       store_event_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    insist(query->limit > 0 && query->limit <= STORE_EVENTS_PAGE_MAX);
    struct map_entry *e = map_at_least(&self->events, query->after + 1);
    int left = query->limit;
    if (query->newest) {
        struct map_entry *at = map_last(&self->events);
        for (e = NULL; at && left > 0; at = map_previous(at)) {
            if (wanted(query, at->value)) {
                e = at;
                left--;
            }
        }
        left = query->limit;
    }
    for (; e && left > 0; e = map_next(e)) {
        if (wanted(query, e->value)) {
            fn(arg, e->value);
            left--;
        }
    }
    return 0;
}

static int list_tokens(struct store *store, store_token_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    for (int i = 0; i < self->tokens_count; i++)
        fn(arg, &self->tokens[i]);
    return 0;
}

static int list_tenants(struct store *store, store_tenant_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    for (int i = 0; i < self->tenants_count; i++)
        fn(arg, &self->tenants[i]);
    return 0;
}

static int list_audit(struct store *store, const struct store_events_query *query,
                      store_audit_fn fn, void *arg, struct error *err)
{
    struct store_memory *self = self_of(store);
    (void)err;
    insist(query->limit > 0 && query->limit <= STORE_AUDIT_PAGE_MAX);
    uint64_t from = query->after + 1;
    if (query->newest && self->last_audit > (uint64_t)query->limit &&
        from <= self->last_audit - (uint64_t)query->limit)
        from = self->last_audit - (uint64_t)query->limit + 1;
    int left = query->limit;
    for (struct map_entry *e = map_at_least(&self->audit, from); e && left > 0;
         e = map_next(e), left--)
        fn(arg, e->value);
    return 0;
}

static int get_meta(struct store *store, const char *key, char *ret, struct error *err)
{
    const char *value = strmap_get(&self_of(store)->meta, key);
    if (!value)
        return error_set(err, E_NOT_FOUND, "no meta '%s'", key);
    return str_copy(ret, STORE_META_VALUE_MAX + 1, value);
}

static int backup_begin(struct store *store, const char *path, struct error *err)
{
    (void)store, (void)path;
    return error_set(err, E_UNIMPLEMENTED, "a store in memory has no backup");
}

static int backup_step(struct store *store, bool *ret_done, struct error *err)
{
    (void)ret_done;
    return backup_begin(store, "", err);
}

static void backup_end(struct store *store)
{
    (void)store;
}

static void close_store(struct store *store)
{
    struct store_memory *self = self_of(store);
    forget_pending(self);
    for (struct map_entry *e = map_first(&self->jobs); e; e = map_next(e))
        document_free(e->value);
    for (struct map_entry *e = strmap_first(&self->nodes); e; e = map_next(e))
        document_free(e->value);
    strmap_free_values(&self->meta);
    map_free_values(&self->events);
    map_free_values(&self->audit);
    store_memory_free_secrets(self);
    store_memory_past_fini(self);
    map_fini(&self->jobs);
    strmap_fini(&self->nodes);
    free(self->tokens);
    free(self);
}

static uint64_t newest_event(const struct store *store)
{
    return ((const struct store_memory *)store)->last_event;
}

static const struct store_verbs memory_verbs = {
    .load = load,
    .begin = begin,
    .put_job = put_job,
    .put_node = put_node,
    .put_token = put_token,
    .put_tenant = put_tenant,
    .put_secret = put_secret,
    .remove_secret = remove_secret,
    .put_audit = put_audit,
    .put_meta = put_meta,
    .record = record,
    .forget_job = forget_job,
    .forget_node = forget_node,
    .commit = commit,
    .rollback = rollback,
    .list_events = list_events,
    .list_tokens = list_tokens,
    .list_tenants = list_tenants,
    .list_secrets = store_memory_list_secrets,
    .list_audit = list_audit,
    .list_past = store_memory_list_past,
    .past_range = store_memory_past_range,
    .get_meta = get_meta,
    .backup_begin = backup_begin,
    .backup_step = backup_step,
    .backup_end = backup_end,
    .newest_event = newest_event,
    .close = close_store,
};

int store_memory_new(struct store **ret, struct error *err)
{
    struct store_memory *self = calloc(1, sizeof(*self));
    if (!self)
        return out_of_memory(err);
    self->store.verbs = &memory_verbs;
    self->last = &self->first;
    *ret = &self->store;
    return 0;
}

void store_memory_fail_commits(struct store *store, int count, int code)
{
    self_of(store)->failing_commits = count;
    self_of(store)->failing_code = code;
}

void store_memory_fail_loads(struct store *store, int count, int code)
{
    self_of(store)->failing_loads = count;
    self_of(store)->failing_load_code = code;
}
