/* Copies the readable part of a damaged store row by row into a new one, and checks for damage.
 * Rows on unreadable pages are skipped from both ends of their table, and one by one between. Rows
 * with invalid documents are left out. */
#include "coordinator/store/store_sqlite_salvage.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite_state.h"
#include "coordinator/store/store_sqlite_open.h"

enum {
    SQL_MAX = 256,
    GAP_MAX = 1000000, /* rows that are looked for one by one between both ends of the damage */
    PARAMETERS_MAX = 64,
};

/* Events first: the triggers of the others number the history by them. `last` is filled by them. */
static const struct {
    const char *name, *key;
    bool numbered; /* the key is a number: rows between can be asked for */
} tables[] = {
    {"meta", "key", false},       {"events", "seq", true},
    {"audit", "seq", true},       {"audit_blocks", "last", true},
    {"tenants", "name", false},   {"tenant_settings", "tenant", false},
    {"secrets", "tenant", false}, {"tokens", "hash", false},
    {"nodes", "rowid", true},     {"jobs", "sequence", true},
};

static bool one_true(sqlite3 *db, const char *sql, sqlite3_value *value)
{
    sqlite3_stmt *stmt = NULL;
    bool is = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
              sqlite3_bind_value(stmt, 1, value) == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW &&
              sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return is;
}

static bool job_is_valid(const char *document)
{
    struct job *job = calloc(1, sizeof(*job));
    bool good = job && !document_read_job(document, strlen(document), job, NULL);
    job_free(job);
    return good;
}

static bool node_is_valid(const char *document)
{
    struct node *node = calloc(1, sizeof(*node));
    bool good = node && !document_read_node(document, strlen(document), node, NULL);
    free(node);
    return good;
}

/* Would a coordinator start with it? */
static bool row_is_valid(sqlite3 *to, const char *table, sqlite3_stmt *row)
{
    bool is_job = strcmp(table, "jobs") == 0, is_node = strcmp(table, "nodes") == 0;
    bool good = true;
    for (int i = 0; good && (is_job || is_node) && i < sqlite3_column_count(row); i++) {
        const char *name = sqlite3_column_name(row, i);
        if (strcmp(name, "spec") == 0)
            good = one_true(to, "SELECT json_valid(?1)", sqlite3_column_value(row, i));
        else if (strcmp(name, "document") == 0)
            good = is_job ? job_is_valid(column(row, i)) : node_is_valid(column(row, i));
    }
    return good;
}

struct copy {
    sqlite3 *from, *to;
    const char *table;
    sqlite3_stmt *put;
    struct store_salvage *told;
    int64_t first_lost, last_lost; /* numbers around the damage, of numbered tables */
};

static void count_row(struct copy *copy, bool kept)
{
    int *counter = !kept                                ? &copy->told->dropped
                   : strcmp(copy->table, "jobs") == 0   ? &copy->told->jobs
                   : strcmp(copy->table, "events") == 0 ? &copy->told->events
                                                        : &copy->told->others;
    ++*counter;
}

static int put_row(struct copy *copy, sqlite3_stmt *row, struct error *err)
{
    if (!row_is_valid(copy->to, copy->table, row)) {
        count_row(copy, false);
        return 0;
    }
    sqlite3_reset(copy->put);
    int columns = sqlite3_bind_parameter_count(copy->put); /* the row ends with its key once more */
    for (int i = 0; i < columns; i++)
        sqlite3_bind_value(copy->put, i + 1, sqlite3_column_value(row, i));
    int step = sqlite3_step(copy->put);
    if ((step & 0xff) == SQLITE_CONSTRAINT) { /* damage that looks like a row */
        count_row(copy, false);
        return 0;
    }
    if (step != SQLITE_DONE)
        return store_sqlite_error(copy->to, step, copy->table, err);
    if (sqlite3_changes(copy->to) > 0)
        count_row(copy, true);
    return 0;
}

/* Rows in the order of `sql` until its end (SQLITE_DONE in *ret_end) or damage. */
static int put_rows(struct copy *copy, const char *sql, int64_t *ret_last, int *ret_end,
                    struct error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = 0, step = sqlite3_prepare_v2(copy->from, sql, -1, &row, NULL);
    if (step == SQLITE_OK)
        while (!rc && (step = sqlite3_step(row)) == SQLITE_ROW) {
            *ret_last = sqlite3_column_int64(row, sqlite3_column_count(row) - 1);
            rc = put_row(copy, row, err);
        }
    sqlite3_finalize(row);
    *ret_end = step;
    return rc;
}

static int put_between(struct copy *copy, const char *key, struct error *err)
{
    char sql[SQL_MAX];
    int rc = 0, end;
    int64_t ignored;
    if (copy->last_lost - copy->first_lost > GAP_MAX)
        return 0;
    for (int64_t at = copy->first_lost + 1; !rc && at < copy->last_lost; at++) {
        (void)str_printf(sql, sizeof(sql), "SELECT *, %s FROM %s NOT INDEXED WHERE %s = %lld", key,
                         copy->table, key, (long long)at);
        rc = put_rows(copy, sql, &ignored, &end, err);
    }
    return rc;
}

static int prepare_put(struct copy *copy, struct error *err)
{
    char sql[SQL_MAX], marks[2 * PARAMETERS_MAX] = "";
    sqlite3_stmt *stmt = NULL;
    (void)str_printf(sql, sizeof(sql), "SELECT * FROM %s", copy->table);
    int rc = sqlite3_prepare_v2(copy->to, sql, -1, &stmt, NULL);
    int columns = rc == SQLITE_OK ? sqlite3_column_count(stmt) : 0;
    sqlite3_finalize(stmt);
    for (int i = 0; i < columns && i < PARAMETERS_MAX; i++)
        (void)str_copy(marks + strlen(marks), sizeof(marks) - strlen(marks), i ? ",?" : "?");
    (void)str_printf(sql, sizeof(sql), "INSERT OR IGNORE INTO %s VALUES (%s)", copy->table, marks);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(copy->to, sql, -1, &copy->put, NULL);
    return rc == SQLITE_OK ? 0 : store_sqlite_error(copy->to, rc, copy->table, err);
}

static int copy_table(struct copy *copy, const char *key, bool numbered, struct error *err)
{
    char sql[SQL_MAX];
    int end = SQLITE_DONE;
    int rc = prepare_put(copy, err);
    if (!rc) {
        (void)str_printf(sql, sizeof(sql), "SELECT *, %s FROM %s NOT INDEXED ORDER BY %s", key,
                         copy->table, key);
        copy->first_lost = 0;
        rc = put_rows(copy, sql, &copy->first_lost, &end, err);
    }
    if (!rc && end != SQLITE_DONE) {
        copy->told->damaged = true;
        copy->last_lost = INT64_MAX;
        (void)str_copy(sql + strlen(sql), sizeof(sql) - strlen(sql), " DESC");
        rc = put_rows(copy, sql, &copy->last_lost, &end, err);
        if (!rc && numbered && copy->last_lost != INT64_MAX)
            rc = put_between(copy, key, err);
    }
    sqlite3_finalize(copy->put);
    copy->put = NULL;
    return rc;
}

static int copy_tables(struct copy *copy, struct error *err)
{
    int version = 0, there = 0;
    char sql[SQL_MAX];
    int rc = store_sqlite_query_int(copy->from, "PRAGMA user_version", &version, err);
    if (!rc && (version < 1 || version > store_sqlite_schema()))
        rc = error_set(err, E_FAILED_PRECONDITION,
                       "the file has schema version %d, this program knows 1 to %d", version,
                       store_sqlite_schema());
    if (!rc)
        rc = store_sqlite_migrate(copy->to, 0, version, err);
    if (!rc)
        rc = store_sqlite_exec(copy->to, "BEGIN", err);
    for (size_t i = 0; !rc && i < sizeof(tables) / sizeof(*tables); i++) {
        (void)str_printf(sql, sizeof(sql), "SELECT count(*) FROM sqlite_schema WHERE name = '%s'",
                         tables[i].name);
        rc = store_sqlite_query_int(copy->to, sql, &there, err);
        copy->table = tables[i].name;
        if (!rc && there)
            rc = copy_table(copy, tables[i].key, tables[i].numbered, err);
    }
    if (!rc)
        rc = store_sqlite_exec(copy->to, "COMMIT", err);
    if (rc)
        return rc;
    return store_sqlite_migrate(copy->to, version, store_sqlite_schema(), err);
}

static int file_of(const char *path, char ret[PATH_MAX], struct error *err)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return str_printf(ret, PATH_MAX, "%s%s", path, folder ? "/muster.db" : "")
               ? error_set(err, E_INVALID_ARGUMENT, "the path is too long")
               : 0;
}

static int open_from(const char *path, sqlite3 **ret, struct error *err)
{
    char file[PATH_MAX];
    int application = 0;
    int rc = file_of(path, file, err);
    if (rc)
        return rc;
    rc = store_sqlite_check_file(file, err);
    if (rc)
        return rc;
    if (access(file, R_OK) < 0)
        return error_errno(err, errno, "%s", file);
    int opened = sqlite3_open_v2(file, ret, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    rc = opened == SQLITE_OK
             ? store_sqlite_query_int(*ret, "PRAGMA application_id", &application, err)
             : store_sqlite_error(*ret, opened, "open", err);
    if (!rc && application != STORE_APPLICATION_ID)
        rc = error_set(err, E_FAILED_PRECONDITION, "the file belongs to another application");
    if (rc)
        return error_wrap(err, "%s", file);
    return 0;
}

/* Also a store without a job has rows: its cluster's name, its tokens. */
static int refuse_nothing(const char *from, struct error *err)
{
    error_set(err, E_DATA_LOSS,
              "nothing of %s can be read: the pages that locate its tables are damaged", from);
    error_hint(err, "begin with a backup: muster coordinator --data NEW --restore BACKUP");
    return E_DATA_LOSS;
}

int store_sqlite_salvage(const char *from, const char *to, struct store_salvage *ret,
                         struct error *err)
{
    char mark[64];
    struct copy copy = {.told = ret};
    *ret = (struct store_salvage){0};
    int rc = open_from(from, &copy.from, err);
    if (!rc && access(to, F_OK) == 0)
        rc = error_set(err, E_ALREADY_EXISTS, "%s exists", to);
    if (!rc)
        rc = store_sqlite_open_new(to, &copy.to, err);
    bool made = copy.to;
    (void)str_printf(mark, sizeof(mark), "PRAGMA application_id = %d", STORE_APPLICATION_ID);
    if (!rc)
        rc = store_sqlite_exec(copy.to, mark, err);
    if (!rc)
        rc = copy_tables(&copy, err);
    if (!rc && ret->jobs + ret->events + ret->others == 0)
        rc = refuse_nothing(from, err);
    sqlite3_close(copy.from);
    sqlite3_close(copy.to);
    if (rc && made)
        (void)unlink(to);
    return rc;
}

/* A look */

static int read_facts(sqlite3 *db, struct store_facts *ret, struct error *err)
{
    static const char cluster[] = "SELECT value FROM meta WHERE key = '" STORE_CLUSTER_KEY "'";
    sqlite3_stmt *stmt = NULL;
    int rc = store_sqlite_query_int(db, "PRAGMA user_version", &ret->schema, err);
    if (!rc)
        rc = store_sqlite_query_int(db, "SELECT count(*) FROM jobs", &ret->jobs, err);
    if (!rc)
        rc = store_sqlite_query_int(db, "SELECT coalesce(max(seq), 0) FROM events", &ret->events,
                                    err);
    if (!rc && ret->schema > 1)
        rc =
            store_sqlite_query_int(db, "SELECT coalesce(max(seq), 0) FROM audit", &ret->audit, err);
    if (!rc && sqlite3_prepare_v2(db, cluster, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        (void)str_copy(ret->cluster, sizeof(ret->cluster), column(stmt, 0));
    sqlite3_finalize(stmt);
    return rc;
}

static int check_pages(sqlite3 *db, struct error *err)
{
    sqlite3_stmt *stmt = NULL;
    char text[512] = "";
    int step = sqlite3_prepare_v2(db, "PRAGMA integrity_check(3)", -1, &stmt, NULL);
    while ((step == SQLITE_OK || step == SQLITE_ROW) && (step = sqlite3_step(stmt)) == SQLITE_ROW)
        (void)str_printf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                         *text ? "; " : "", column(stmt, 0));
    sqlite3_finalize(stmt);
    if (step != SQLITE_DONE)
        return store_sqlite_error(db, step, "integrity check", err);
    return strcmp(text, "ok") == 0 ? 0 : error_set(err, E_DATA_LOSS, "integrity check: %s", text);
}

/* Each document, as a start would read it. */
static int check_documents(sqlite3 *db, struct error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = 0, step = sqlite3_prepare_v2(db,
                                          "SELECT 'jobs', id, spec, document FROM jobs UNION ALL"
                                          " SELECT 'nodes', name, '{}', document FROM nodes",
                                          -1, &stmt, NULL);
    while (!rc && (step == SQLITE_OK || step == SQLITE_ROW) &&
           (step = sqlite3_step(stmt)) == SQLITE_ROW)
        if (!row_is_valid(db, column(stmt, 0), stmt))
            rc = error_set(err, E_DATA_LOSS, "%s: the row of %s cannot be read", column(stmt, 0),
                           column(stmt, 1));
    if (!rc && step != SQLITE_DONE)
        rc = store_sqlite_error(db, step, "documents", err);
    sqlite3_finalize(stmt);
    return rc;
}

int store_sqlite_examine(const char *path, struct store_facts *ret, struct error *err)
{
    sqlite3 *db = NULL;
    struct store_mark mark;
    *ret = (struct store_facts){0};
    int rc = open_from(path, &db, err);
    if (!rc)
        rc = check_pages(db, err);
    if (!rc)
        rc = read_facts(db, ret, err);
    if (!rc)
        rc = check_documents(db, err);
    sqlite3_close(db);
    if (!rc && !store_mark_read(path, &mark, NULL)) {
        struct store_mark now = {.event = (uint64_t)ret->events, .audit = (uint64_t)ret->audit};
        (void)str_copy(now.cluster, sizeof(now.cluster), ret->cluster);
        rc = store_mark_compare(&mark, &now, err);
    }
    return rc;
}
