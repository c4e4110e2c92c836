/* Loading many jobs: batches, a second thread, and what is said of the one that cannot be read. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/store/store_sqlite.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/muster-load-XXXXXX");
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    struct disk disk = disk_os();
    cr_assert_eq(disk.remove_tree(disk.self, dir, NULL), 0);
}

TestSuite(store_load, .init = make_dir, .fini = remove_dir);

static int parse_spec(void *arg, const char *json, struct spec **ret, struct error *err)
{
    static const char *const command[] = {"true"};
    struct spec_input input = {.json = json, .name = "a", .command = command, .command_count = 1};
    (*(int *)arg)++;
    return spec_build(&input, ret, err);
}

static void exec_raw(const char *sql)
{
    char path[96], *message = NULL;
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/muster.db", dir);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK, "%s", message);
    sqlite3_close(db);
}

static void put_jobs(int first, int last)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO jobs SELECT i, 'j' || i, 'a', 'default', 'succeeded', 10, 20,"
             " zeroblob(32), '{}', json_object('id', 'j' || i, 'sequence', i, 'state', 'succeeded',"
             " 'restarts', i %% 7) FROM n",
             first, last);
    exec_raw(sql);
}

static int load(struct cluster *cluster, int *specs, struct error *err)
{
    struct store *store;
    struct store_loader loader = {.parse_spec = parse_spec, .arg = specs};
    cr_assert_eq(store_sqlite_open(dir, &store, err), 0, "%s", err->text);
    int rc = store->verbs->load(store, &loader, cluster, err);
    store_close(store);
    return rc;
}

static void expect_all(int count)
{
    struct error err = {0};
    struct cluster *cluster = cluster_new(1);
    int specs = 0, at = 0;
    cr_assert_eq(load(cluster, &specs, &err), 0, "%s", err.text);
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job)) {
        char id[16];
        snprintf(id, sizeof(id), "j%d", ++at);
        cr_assert_eq(job->sequence, (uint64_t)at);
        cr_assert_str_eq(job->id, id);
        cr_assert_eq(job->restarts, at % 7);
    }
    cr_assert_eq(at, count);
    cr_assert_eq(specs, count);
    cluster_free(cluster);
}

Test(store_load, every_number_of_jobs_comes_once_and_in_order)
{
    static const int counts[] = {1, 511, 512, 513, 1024, 1025, 2600};
    struct store *store;
    cr_assert_eq(store_sqlite_open(dir, &store, NULL), 0);
    store_close(store);
    expect_all(0);
    for (size_t i = 0, before = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        put_jobs((int)before + 1, counts[i]);
        expect_all(counts[i]);
        before = (size_t)counts[i];
    }
}

Test(store_load, the_job_that_cannot_be_read_is_named)
{
    static const char *const damages[] = {
        "UPDATE jobs SET document = '{\"id\":' WHERE sequence = 1300",
        ("UPDATE jobs SET document = json_object('id', 'j1300', 'sequence', 'many')"
         " WHERE sequence = 1300"),
        "UPDATE jobs SET secret = x'00' WHERE sequence = 1300",
    };
    struct store *store;
    cr_assert_eq(store_sqlite_open(dir, &store, NULL), 0);
    store_close(store);
    put_jobs(1, 1500);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct error err = {0};
        struct cluster *cluster = cluster_new(1);
        int specs = 0;
        exec_raw(damages[i]);
        cr_assert_eq(load(cluster, &specs, &err), E_DATA_LOSS, "%s", err.text);
        cr_assert(str_starts(err.text, "stored job j1300: "), "%s", err.text);
        cluster_free(cluster);
        exec_raw("DELETE FROM jobs WHERE sequence = 1300");
        put_jobs(1300, 1300);
    }
}
