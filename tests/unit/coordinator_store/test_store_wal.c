/* The write-ahead log of the store in SQLite and the thread that copies it. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite.h"
#include "coordinator/store/store_sqlite_wal.h"
#include "tests/lib/tmpdir.h"

static struct tmpdir dir;

static void make_dir(void)
{
    dir = tmpdir_make();
}

static void remove_dir(void)
{
    tmpdir_remove(&dir);
}

TestSuite(store_wal, .init = make_dir, .fini = remove_dir);

static struct store *must_open(void)
{
    struct store *store;
    struct error err = {0};
    cr_assert_eq(store_sqlite_open(dir.path, &store, &err), 0, "%s", err.text);
    return store;
}

static int64_t bytes_of(const char *name)
{
    struct stat st;
    return stat(tmpdir_path(&dir, name), &st) == 0 ? st.st_size : 0;
}

/* A commit of about 50 pages; `n` makes the values of each its own. */
static void commit_many(struct store *store, int n)
{
    enum { KEYS = 500 };
    struct error err = {0};
    char key[32], value[STORE_META_VALUE_MAX + 1];
    cr_assert_eq(store->verbs->begin(store, &err), 0, "%s", err.text);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        snprintf(value, sizeof(value), "%0*d", STORE_META_VALUE_MAX, n);
        cr_assert_eq(store->verbs->put_meta(store, key, value, &err), 0, "%s", err.text);
    }
    cr_assert_eq(store->verbs->commit(store, &err), 0, "%s", err.text);
}

/* 400 MB are written; without the thread the log would have WAL_MOST_PAGES before it began anew. */
Test(store_wal, the_log_is_copied_beside_commits_and_begins_anew, .timeout = 300)
{
    enum { PAGE = 4096, PAGES = 100000 };
    struct store *store = must_open();
    int64_t written = 0, before = 0;
    int commits = 0;
    for (; written < (int64_t)PAGES * PAGE && commits < PAGES; commits++) {
        commit_many(store, commits);
        int64_t size = bytes_of("muster.db-wal");
        if (commits == 0)
            before = size;
        written += before;
    }
    int64_t log = bytes_of("muster.db-wal");
    cr_expect_lt(log, (int64_t)WAL_MOST_PAGES * PAGE * 3 / 4, "%lld bytes of log after %d commits",
                 (long long)log, commits);
    char value[STORE_META_VALUE_MAX + 1];
    cr_expect_eq(store->verbs->get_meta(store, "k7", value, NULL), 0);
    cr_expect_eq(atoi(value), commits - 1);
    store_close(store);
    cr_expect_eq(bytes_of("muster.db-wal"), 0, "a clean end leaves no log");
    store = must_open();
    cr_expect_eq(store->verbs->get_meta(store, "k499", value, NULL), 0);
    cr_expect_eq(atoi(value), commits - 1);
    store_close(store);
}
