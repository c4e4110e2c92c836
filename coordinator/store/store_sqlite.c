#include "coordinator/store/store_sqlite.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/data_dir.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite_access.h"
#include "coordinator/store/store_sqlite_backup.h"
#include "coordinator/store/store_sqlite_load.h"
#include "coordinator/store/store_sqlite_open.h"
#include "coordinator/store/store_sqlite_past.h"
#include "coordinator/store/store_sqlite_secrets.h"
#include "coordinator/store/store_sqlite_state.h"
#include "coordinator/store/store_sqlite_wal.h"

static int begin(struct store *store, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    never(self->in_transaction);
    int rc = run(self, statement(self, S_BEGIN), "begin", err);
    if (!rc) {
        self->in_transaction = true;
        self->open_event = self->last_event;
        self->open_audit = self->last_audit;
    }
    return rc;
}

static int put_job(struct store *store, const struct job *job, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    struct buf document;
    buf_init(&document, DOCUMENT_MAX_BYTES);
    int rc = document_write_job(job, &document, err);
    if (!rc) {
        sqlite3_stmt *stmt = statement(self, S_PUT_JOB);
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)job->sequence);
        bind_text(stmt, 2, job->id);
        bind_text(stmt, 3, job->spec->name);
        bind_text(stmt, 4, job->spec->tenant);
        bind_text(stmt, 5, job_state_name(job->state));
        sqlite3_bind_int64(stmt, 6, job->submitted_wall_ms);
        sqlite3_bind_int64(stmt, 7, job->ended_wall_ms);
        sqlite3_bind_blob(stmt, 8, job->secret, SECRET_BYTES, SQLITE_STATIC);
        bind_text(stmt, 9, job->spec->json);
        sqlite3_bind_text(stmt, 10, document.data, (int)document.size, SQLITE_STATIC);
        rc = run(self, stmt, "write job", err);
    }
    buf_fini(&document);
    return rc;
}

static int forget_job(struct store *store, uint64_t sequence, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_FORGET_JOB);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)sequence);
    return run(self, stmt, "forget job", err);
}

static int put_node(struct store *store, const struct node *node, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    struct buf document;
    buf_init(&document, DOCUMENT_MAX_BYTES);
    int rc = document_write_node(node, &document, err);
    if (!rc) {
        sqlite3_stmt *stmt = statement(self, S_PUT_NODE);
        bind_text(stmt, 1, node->name);
        bind_text(stmt, 2, node_state_name(node->state));
        sqlite3_bind_text(stmt, 3, document.data, (int)document.size, SQLITE_STATIC);
        rc = run(self, stmt, "write node", err);
    }
    buf_fini(&document);
    return rc;
}

static int forget_node(struct store *store, const char *name, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    sqlite3_stmt *stmt = statement(self, S_FORGET_NODE);
    bind_text(stmt, 1, name);
    return run(self, stmt, "forget node", err);
}

static int put_meta(struct store *store, const char *key, const char *value, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    if (strlen(key) > STORE_META_KEY_MAX || strlen(value) > STORE_META_VALUE_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "meta '%s' is too long", key);
    sqlite3_stmt *stmt = statement(self, S_PUT_META);
    bind_text(stmt, 1, key);
    bind_text(stmt, 2, value);
    if (strcmp(key, STORE_CLUSTER_KEY) == 0)
        (void)str_copy(self->cluster, sizeof(self->cluster), value);
    return run(self, stmt, "write meta", err);
}

static int forget_old_events(struct store_sqlite *self, struct error *err)
{
    enum { FORGET_EVERY = 1024 };
    if (self->open_event % FORGET_EVERY != 0 || self->open_event <= STORE_EVENTS_KEPT_MAX)
        return 0;
    sqlite3_stmt *stmt = statement(self, S_FORGET_EVENTS);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)(self->open_event - STORE_EVENTS_KEPT_MAX));
    return run(self, stmt, "forget old events", err);
}

static int record(struct store *store, const struct record *record, uint64_t *ret_seq,
                  struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    struct buf reason;
    buf_init(&reason, DOCUMENT_MAX_BYTES);
    int rc = document_write_reason(&record->reason, &reason, err);
    if (!rc) {
        sqlite3_stmt *stmt = statement(self, S_RECORD);
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)(self->open_event + 1));
        sqlite3_bind_int64(stmt, 2, record->wall_ms);
        bind_text(stmt, 3, record->kind);
        bind_text(stmt, 4, record->job);
        bind_text(stmt, 5, record->node);
        sqlite3_bind_int64(stmt, 6, (sqlite3_int64)record->generation);
        bind_text(stmt, 7, record->from);
        bind_text(stmt, 8, record->to);
        sqlite3_bind_text(stmt, 9, reason.data, (int)reason.size, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 10, record->world);
        rc = run(self, stmt, "record event", err);
    }
    buf_fini(&reason);
    if (rc)
        return rc;
    *ret_seq = ++self->open_event;
    return forget_old_events(self, err);
}

static int look(struct store *store, struct error *err)
{
    return store_guard_look(&self_of(store)->guard, err);
}

static uint64_t newest_event(const struct store *store)
{
    return ((const struct store_sqlite *)store)->last_event;
}

static struct store_mark mark_of(const struct store_sqlite *self)
{
    struct store_mark mark = {.event = self->last_event, .audit = self->last_audit};
    (void)str_copy(mark.cluster, sizeof(mark.cluster), self->cluster);
    return mark;
}

static void mark(struct store *store)
{
    struct store_sqlite *self = self_of(store);
    struct store_mark now = mark_of(self);
    store_guard_mark(&self->guard, &now);
}

static int commit(struct store *store, struct error *err)
{
    enum { FOLD_EVERY = 64 };
    struct store_sqlite *self = self_of(store);
    insist(self->in_transaction);
    int rc = 0;
    if (++self->commits % FOLD_EVERY == 0 || self->folds_on)
        rc = store_sqlite_fold_past(self, STORE_PAST_KEPT_BYTES, err);
    if (!rc)
        rc = run(self, statement(self, S_COMMIT), "commit", err);
    if (rc)
        return rc;
    self->in_transaction = false;
    self->last_event = self->open_event;
    self->last_audit = self->open_audit;
    /* Data written to a deleted file is not durable: it must not be acknowledged. */
    return look(store, err);
}

static void rollback(struct store *store)
{
    struct store_sqlite *self = self_of(store);
    self->in_transaction = false;
    /* After a full disk SQLite has often rolled back by itself. */
    if (!sqlite3_get_autocommit(self->db))
        (void)run(self, statement(self, S_ROLLBACK), "rollback", NULL);
}

static int load_node(sqlite3_stmt *stmt, struct cluster *cluster, struct error *err)
{
    struct node *node = calloc(1, sizeof(*node));
    if (!node)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    int rc = document_read_node(column(stmt, 1), (size_t)sqlite3_column_bytes(stmt, 1), node, err);
    if (!rc)
        rc = cluster_add_node(cluster, node, err);
    if (rc) {
        error_wrap(err, "stored node %s", column(stmt, 0));
        free(node);
    }
    return rc;
}

static int load(struct store *store, const struct store_loader *loader, struct cluster *cluster,
                struct error *err)
{
    struct store_sqlite *self = self_of(store);
    never(self->in_transaction);
    int rc = 0, step = SQLITE_DONE;
    sqlite3_stmt *stmt = statement(self, S_NODES);
    while (!rc && (step = sqlite3_step(stmt)) == SQLITE_ROW)
        rc = load_node(stmt, cluster, err);
    sqlite3_reset(stmt);
    if (!rc && step != SQLITE_DONE)
        return store_sqlite_error(self->db, step, "load nodes", err);
    if (rc)
        return rc;
    return store_sqlite_load_jobs(self, loader, cluster, err);
}

static int event_of(sqlite3_stmt *stmt, struct store_event *event, struct error *err)
{
    struct record *record = &event->record;
    *event = (struct store_event){.seq = (uint64_t)sqlite3_column_int64(stmt, 0)};
    record->wall_ms = sqlite3_column_int64(stmt, 1);
    (void)str_copy(record->kind, sizeof(record->kind), column(stmt, 2));
    (void)str_copy(record->job, sizeof(record->job), column(stmt, 3));
    (void)str_copy(record->node, sizeof(record->node), column(stmt, 4));
    record->generation = (uint64_t)sqlite3_column_int64(stmt, 5);
    (void)str_copy(record->from, sizeof(record->from), column(stmt, 6));
    (void)str_copy(record->to, sizeof(record->to), column(stmt, 7));
    record->world = sqlite3_column_int(stmt, 9);
    return document_read_reason(column(stmt, 8), (size_t)sqlite3_column_bytes(stmt, 8),
                                &record->reason, err);
}

static int list_events(struct store *store, const struct store_events_query *query,
                       store_event_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    insist(query->limit > 0 && query->limit <= STORE_EVENTS_PAGE_MAX);
    bool of_job = query->job && *query->job;
    sqlite3_stmt *stmt = statement(self, query->newest ? (of_job ? S_NEWEST_OF : S_NEWEST)
                                                       : (of_job ? S_EVENTS_OF : S_EVENTS));
    sqlite3_bind_int64(stmt, 1, query->after > INT64_MAX ? INT64_MAX : (int64_t)query->after);
    sqlite3_bind_int(stmt, 2, query->limit);
    if (of_job)
        bind_text(stmt, 3, query->job);
    struct store_event event;
    int rc = 0, step = SQLITE_DONE;
    while (!rc && (step = sqlite3_step(stmt)) == SQLITE_ROW) {
        rc = event_of(stmt, &event, err);
        if (!rc)
            fn(arg, &event);
    }
    sqlite3_reset(stmt);
    return !rc && step != SQLITE_DONE ? store_sqlite_error(self->db, step, "list events", err) : rc;
}

static int get_meta(struct store *store, const char *key, char *ret, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    sqlite3_stmt *stmt = statement(self, S_META);
    bind_text(stmt, 1, key);
    int step = sqlite3_step(stmt), rc = 0;
    if (step == SQLITE_ROW)
        rc = str_copy(ret, STORE_META_VALUE_MAX + 1, column(stmt, 0));
    else if (step == SQLITE_DONE)
        rc = error_set(err, E_NOT_FOUND, "no meta '%s'", key);
    else
        rc = store_sqlite_error(self->db, step, "read meta", err);
    sqlite3_reset(stmt);
    return rc;
}

static void close_store(struct store *store)
{
    struct store_sqlite *self = self_of(store);
    if (!look(store, NULL))
        mark(store);
    store_sqlite_backup_end(store);
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(self->statements[i]);
    wal_thread_free(self->wal);
    sqlite3_close(self->db);
    store_guard_end(&self->guard);
    data_dir_unlock(&self->lock);
    free(self);
}

static const struct store_verbs sqlite_verbs = {
    .load = load,
    .begin = begin,
    .put_job = put_job,
    .put_node = put_node,
    .put_token = store_sqlite_put_token,
    .put_tenant = store_sqlite_put_tenant,
    .put_secret = store_sqlite_put_secret,
    .remove_secret = store_sqlite_remove_secret,
    .put_audit = store_sqlite_put_audit,
    .put_meta = put_meta,
    .record = record,
    .forget_job = forget_job,
    .forget_node = forget_node,
    .commit = commit,
    .rollback = rollback,
    .list_events = list_events,
    .list_tokens = store_sqlite_list_tokens,
    .list_tenants = store_sqlite_list_tenants,
    .list_secrets = store_sqlite_list_secrets,
    .list_audit = store_sqlite_list_audit,
    .list_past = store_sqlite_list_past,
    .past_range = store_sqlite_past_range,
    .get_meta = get_meta,
    .backup_begin = store_sqlite_backup_begin,
    .backup_step = store_sqlite_backup_step,
    .backup_end = store_sqlite_backup_end,
    .newest_event = newest_event,
    .look = look,
    .mark = mark,
    .close = close_store,
};

static int prepare_all(struct store_sqlite *self, struct error *err)
{
    static const char *const texts[] = {
#define X(name, sql) sql,
        STATEMENTS(X)
#undef X
    };
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(self->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &self->statements[i], NULL);
        if (rc != SQLITE_OK)
            return store_sqlite_error(self->db, rc, "prepare", err);
    }
    return 0;
}

static int last_number(struct store_sqlite *self, enum statement which, uint64_t *ret,
                       struct error *err)
{
    sqlite3_stmt *stmt = statement(self, which);
    int rc = 0, step = sqlite3_step(stmt);
    if (step != SQLITE_ROW)
        rc = store_sqlite_error(self->db, step, "last number", err);
    else
        *ret = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return rc;
}

static int read_cluster(struct store_sqlite *self, struct error *err)
{
    int rc = get_meta(&self->store, STORE_CLUSTER_KEY, self->cluster, err);
    if (rc != E_NOT_FOUND)
        return rc;
    error_clear(err);
    return 0;
}

static int start_wal_thread(struct store_sqlite *self, struct error *err)
{
    return wal_thread_new(self->db, sqlite3_db_filename(self->db, "main"), &self->wal, err);
}

static int open_in(struct store_sqlite *self, const char *data_dir, struct error *err)
{
    int rc = data_dir_lock(data_dir, &self->lock, err);
    if (!rc)
        rc = store_guard_before(data_dir, err);
    if (!rc)
        rc = store_sqlite_open_file(data_dir, &self->db, err);
    if (!rc)
        rc = start_wal_thread(self, err);
    if (!rc)
        rc = prepare_all(self, err);
    if (!rc)
        rc = last_number(self, S_LAST_EVENT, &self->last_event, err);
    if (!rc)
        rc = last_number(self, S_LAST_AUDIT, &self->last_audit, err);
    if (!rc)
        rc = read_cluster(self, err);
    struct store_mark now = mark_of(self);
    if (rc)
        return rc;
    return store_guard_begin(&self->guard, data_dir, &now, err);
}

int store_sqlite_open(const char *data_dir, struct store **ret, struct error *err)
{
    struct store_sqlite *self = calloc(1, sizeof(*self));
    if (!self)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    self->store.verbs = &sqlite_verbs;
    self->lock = DATA_DIR_UNLOCKED;
    self->guard.fd = -1;
    int rc = open_in(self, data_dir, err);
    if (rc) {
        close_store(&self->store);
        return rc;
    }
    *ret = &self->store;
    return 0;
}

static int open_to_read(struct store_sqlite *self, const char *path, struct error *err)
{
    int rc = store_sqlite_open_past(path, &self->db, err);
    if (!rc)
        rc = prepare_all(self, err);
    if (rc)
        return rc;
    return last_number(self, S_LAST_EVENT, &self->last_event, err);
}

int store_sqlite_open_to_read(const char *path, struct store **ret, struct error *err)
{
    struct store_sqlite *self = calloc(1, sizeof(*self));
    if (!self)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    self->store.verbs = &sqlite_verbs;
    self->lock = DATA_DIR_UNLOCKED;
    self->guard.fd = -1;
    int rc = open_to_read(self, path, err);
    if (rc) {
        close_store(&self->store);
        return rc;
    }
    *ret = &self->store;
    return 0;
}

int store_sqlite_limit_pages(struct store *store, int pages, struct error *err)
{
    char sql[64];
    (void)str_printf(sql, sizeof(sql), "PRAGMA max_page_count = %d", pages ? pages : INT_MAX - 1);
    return store_sqlite_exec(self_of(store)->db, sql, err);
}
