/* How much of the audit trail the store in SQLite keeps: changes and refusals have budgets of their
 * own. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>

#include "coordinator/store/store_sqlite.h"
#include "tests/lib/tmpdir.h"

enum { BLOCK = 1024 };

static struct tmpdir dir;

static void make_dir(void)
{
    dir = tmpdir_make();
}

static void remove_dir(void)
{
    tmpdir_remove(&dir);
}

TestSuite(audit_kept, .init = make_dir, .fini = remove_dir, .timeout = 120);

static struct store *must_open(void)
{
    struct store *store;
    struct error err = {0};
    cr_assert_eq(store_sqlite_open(dir.path, &store, &err), 0, "%s", err.text);
    return store;
}

static sqlite3 *open_raw(void)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(tmpdir_path(&dir, "muster.db"), &db), SQLITE_OK);
    return db;
}

static int64_t ask(const char *sql)
{
    sqlite3 *db = open_raw();
    sqlite3_stmt *stmt;
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return number;
}

/* Write entries first … last to a closed store as if an older program had: no block counts them. */
static void write_entries(int64_t first, int64_t last, const char *result)
{
    char sql[512];
    sqlite3 *db = open_raw();
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE n(i) AS (SELECT %lld UNION ALL SELECT i + 1 FROM n WHERE i < %lld)"
             " INSERT INTO audit SELECT i, 0, '', '', '', '', '', '', '', '', '%s', '' FROM n",
             (long long)first, (long long)last, result);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void exec(const char *sql)
{
    sqlite3 *db = open_raw();
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* The store writes `count` entries in one transaction. */
static void put(int count, const char *result)
{
    struct store *store = must_open();
    struct store_audit entry = {0};
    struct error err = {0};
    snprintf(entry.result, sizeof(entry.result), "%s", result);
    cr_assert_eq(store->verbs->begin(store, &err), 0, "%s", err.text);
    for (int i = 0; i < count; i++)
        cr_assert_eq(store->verbs->put_audit(store, &entry, &err), 0, "%s", err.text);
    cr_assert_eq(store->verbs->commit(store, &err), 0, "%s", err.text);
    store_close(store);
}

static const char changes[] = "SELECT count(*) FROM audit WHERE result = 'OK'";
static const char oldest_change[] = "SELECT min(seq) FROM audit WHERE result = 'OK'";
static const char blocks[] = "SELECT count(*) FROM audit_blocks";

/* A store whose changes 1 … last are counted in blocks, as the migration counts them. */
static void with_changes(int64_t last)
{
    store_close(must_open());
    write_entries(1, last, "OK");
    exec("DELETE FROM audit_blocks; INSERT INTO audit_blocks SELECT max(seq), sum(result = 'OK')"
         " FROM audit GROUP BY seq / 1024");
}

Test(audit_kept, the_oldest_changes_go_block_by_block)
{
    with_changes(STORE_AUDIT_KEPT_MAX + 1);
    put(3 * BLOCK, "OK");
    int64_t last = STORE_AUDIT_KEPT_MAX + 1 + 3 * BLOCK;
    cr_expect_geq(ask(changes), STORE_AUDIT_KEPT_MAX);
    cr_expect_leq(ask(changes), STORE_AUDIT_KEPT_MAX + 2 * BLOCK);
    cr_expect_eq(ask(changes), last - ask(oldest_change) + 1, "no change between them is gone");
    cr_expect_leq(ask(blocks), STORE_AUDIT_KEPT_MAX / BLOCK + 5);
}

Test(audit_kept, a_flood_of_refusals_moves_no_change)
{
    with_changes(STORE_AUDIT_KEPT_MAX);
    write_entries(STORE_AUDIT_KEPT_MAX + 1, STORE_AUDIT_KEPT_MAX + STORE_REFUSALS_KEPT_MAX,
                  "PERMISSION_DENIED");
    int64_t before = ask(blocks);
    for (int i = 0; i < 5; i++)
        put(BLOCK, "PERMISSION_DENIED");
    cr_expect_eq(ask(changes), STORE_AUDIT_KEPT_MAX);
    cr_expect_leq(ask("SELECT count(*) FROM audit WHERE result <> 'OK'"),
                  STORE_REFUSALS_KEPT_MAX + BLOCK);
    cr_expect_leq(ask(blocks), before + 1, "blocks without changes are joined");

    put(3 * BLOCK, "OK"); /* and the changes after it are counted */
    cr_expect_geq(ask(changes), STORE_AUDIT_KEPT_MAX);
    cr_expect_leq(ask(changes), STORE_AUDIT_KEPT_MAX + 2 * BLOCK);
    cr_expect_eq(ask("SELECT min(seq) FROM audit WHERE result <> 'OK'") > STORE_AUDIT_KEPT_MAX, 1);
}

/* Numbers jump after a restore of an older copy. */
Test(audit_kept, entries_on_both_sides_of_a_jump_are_counted)
{
    enum { JUMP = 1000000 };
    store_close(must_open());
    write_entries(1, 5, "OK");
    write_entries(JUMP + 1, JUMP + 5, "OK");
    put(2 * BLOCK, "OK");
    cr_expect_eq(ask("SELECT sum(changes) FROM audit_blocks"),
                 ask("SELECT count(*) FROM audit WHERE result = 'OK' AND seq <="
                     " (SELECT max(last) FROM audit_blocks)"));
    cr_expect_eq(ask(changes), 10 + 2 * BLOCK);
}
