/* Past states in SQLite: reading them, and folding the oldest changes together. The triggers that
 * write them are in schema.sql. `seq` rises with `number`, so an event is found by halving. */
#include "coordinator/store/store_sqlite_past.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/store/meta.h"

/* Meta keys: the oldest event with a state that can be rebuilt, and the newest change folded into
 * it. */
static const char from_key[] = "history_from", folded_key[] = "history_folded";

static int read_number(struct store_sqlite *self, const char *key, uint64_t *ret, struct error *err)
{
    char text[STORE_META_VALUE_MAX + 1];
    int64_t value = 0;
    int rc = self->store.verbs->get_meta(&self->store, key, text, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        rc = 0;
    } else if (!rc) {
        rc = parse_i64(text, 0, INT64_MAX, &value, err);
    }
    *ret = (uint64_t)value;
    return rc;
}

struct two { /* columns of a row; zeros without a row */
    uint64_t a, b;
};

static int read_two(struct store_sqlite *self, sqlite3_stmt *stmt, struct two *ret,
                    struct error *err)
{
    int step = sqlite3_step(stmt), rc = 0;
    *ret = (struct two){0};
    if (step == SQLITE_ROW)
        *ret = (struct two){(uint64_t)sqlite3_column_int64(stmt, 0),
                            (uint64_t)sqlite3_column_int64(stmt, 1)};
    else if (step != SQLITE_DONE)
        rc = store_sqlite_error(self->db, step, "read history", err);
    sqlite3_reset(stmt);
    return rc;
}

static int change_before(struct store_sqlite *self, uint64_t number, struct two *ret,
                         struct error *err)
{
    sqlite3_stmt *stmt = statement(self, S_HISTORY_BEFORE);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)number);
    return read_two(self, stmt, ret, err);
}

/* The number of the last change that was stored when `seq` was the newest event. */
static int find_change(struct store_sqlite *self, uint64_t seq, uint64_t *ret, struct error *err)
{
    struct two row;
    int rc = change_before(self, INT64_MAX, &row, err);
    uint64_t low = 0, high = row.a;
    if (row.b <= seq)
        low = high;
    while (!rc && low < high) { /* low is of an event that is early enough, high is not */
        uint64_t middle = low + (high - low) / 2;
        rc = change_before(self, middle, &row, err);
        if (middle == low)
            break;
        if (row.b <= seq)
            low = middle;
        else
            high = middle;
    }
    *ret = low;
    return rc;
}

int store_sqlite_past_range(struct store *store, int64_t wall_ms, struct store_past_range *ret,
                            struct error *err)
{
    struct store_sqlite *self = self_of(store);
    struct two row;
    int rc = read_number(self, from_key, &ret->first, err);
    sqlite3_stmt *stmt = statement(self, S_EVENT_AT);
    sqlite3_bind_int64(stmt, 1, wall_ms);
    if (!rc)
        rc = read_two(self, stmt, &row, err);
    ret->last = self->last_event;
    ret->at = rc ? 0 : row.a;
    return rc;
}

static int check_range(struct store *store, uint64_t seq, struct error *err)
{
    struct store_past_range range;
    int rc = store_sqlite_past_range(store, 0, &range, err);
    if (!rc && (seq < range.first || seq > range.last)) {
        rc = error_set(err, E_OUT_OF_RANGE, "the state at event %llu cannot be rebuilt",
                       (unsigned long long)seq);
        error_hint(err, "from event %llu to %llu they can", (unsigned long long)range.first,
                   (unsigned long long)range.last);
    }
    return rc;
}

static sqlite3_stmt *past_statement(struct store_sqlite *self, const struct store_past_query *query,
                                    uint64_t number)
{
    static const enum statement which[] = {[STORE_PAST_NODE] = S_PAST_NODES,
                                           [STORE_PAST_TENANT] = S_PAST_TENANTS,
                                           [STORE_PAST_JOB] = S_PAST_JOBS};
    sqlite3_stmt *stmt = statement(self, which[query->kind]);
    if (query->kind == STORE_PAST_JOB)
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)query->after_sequence);
    else
        bind_text(stmt, 1, query->after ? query->after : "");
    sqlite3_bind_int64(stmt, 2, (sqlite3_int64)number);
    sqlite3_bind_int(stmt, 3, query->limit);
    return stmt;
}

int store_sqlite_list_past(struct store *store, const struct store_past_query *query,
                           store_past_fn fn, void *arg, struct error *err)
{
    struct store_sqlite *self = self_of(store);
    uint64_t number = 0;
    insist(query->limit > 0 && query->limit <= STORE_PAST_PAGE_MAX);
    int rc = check_range(store, query->seq, err), step = SQLITE_DONE;
    if (!rc)
        rc = find_change(self, query->seq, &number, err);
    if (rc)
        return rc;
    sqlite3_stmt *stmt = past_statement(self, query, number);
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        bool job = query->kind == STORE_PAST_JOB;
        struct store_past past = {
            .name = job ? "" : column(stmt, 0),
            .sequence = job ? (uint64_t)sqlite3_column_int64(stmt, 0) : 0,
            .document = column(stmt, 1),
            .spec = column(stmt, 2),
            .now = column(stmt, 3),
        };
        fn(arg, &past);
    }
    sqlite3_reset(stmt);
    return step == SQLITE_DONE ? 0 : store_sqlite_error(self->db, step, "list past", err);
}

static int put_number(struct store_sqlite *self, const char *key, uint64_t value, struct error *err)
{
    char text[32];
    (void)str_printf(text, sizeof(text), "%llu", (unsigned long long)value);
    return self->store.verbs->put_meta(&self->store, key, text, err);
}

/* All up to change `to` becomes one state: of each key the last change stays. */
static int fold_range(struct store_sqlite *self, uint64_t from, const struct two *to,
                      struct error *err)
{
    static const enum statement both[] = {S_FOLD_HISTORY, S_FOLD_FORGOTTEN};
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        sqlite3_stmt *stmt = statement(self, both[i]);
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)from);
        sqlite3_bind_int64(stmt, 2, (sqlite3_int64)to->a);
        rc = run(self, stmt, "fold history", err);
    }
    if (!rc)
        rc = put_number(self, from_key, to->b, err);
    if (rc)
        return rc;
    return put_number(self, folded_key, to->a, err);
}

int store_sqlite_fold_past(struct store_sqlite *self, int64_t kept_bytes, struct error *err)
{
    enum { CHANGES_MAX = 4096 }; /* at once: ten milliseconds or so */
    uint64_t folded = 0;
    struct two last, to;
    int rc = read_two(self, statement(self, S_HISTORY_LAST), &last, err);
    if (!rc)
        rc = read_number(self, folded_key, &folded, err);
    self->folds_on = false;
    if (rc || last.b <= (uint64_t)kept_bytes)
        return rc;
    sqlite3_stmt *stmt = statement(self, S_HISTORY_LIGHT);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)folded);
    sqlite3_bind_int64(stmt, 2, (sqlite3_int64)(folded + CHANGES_MAX));
    sqlite3_bind_int64(stmt, 3, (sqlite3_int64)last.b - kept_bytes);
    rc = read_two(self, stmt, &to, err);
    self->folds_on = !rc && to.a == folded + CHANGES_MAX;
    if (rc || !to.a)
        return rc;
    return fold_range(self, folded, &to, err);
}
