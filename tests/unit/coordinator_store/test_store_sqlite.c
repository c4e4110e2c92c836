#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite.h"
#include "coordinator/store/store_sqlite_backup.h"
#include "coordinator/store/store_sqlite_open.h"
#include "coordinator/store/store_sqlite_past.h"
#include "coordinator/store/store_sqlite_salvage.h"
#include "coordinator/store/store_sqlite_state.h"

static char dir[64];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/muster-sqlite-XXXXXX");
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    struct disk disk = disk_os();
    cr_assert_eq(disk.remove_tree(disk.self, dir, NULL), 0);
}

TestSuite(store_sqlite, .init = make_dir, .fini = remove_dir);

static struct store *must_open(void)
{
    struct store *store;
    struct error err = {0};
    cr_assert_eq(store_sqlite_open(dir, &store, &err), 0, "%s", err.text);
    return store;
}

static sqlite3 *open_raw(void)
{
    char path[96];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/muster.db", dir);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void exec_raw(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK, "%s", message);
}

static int collect(void *arg, int columns, char **values, char **names)
{
    (void)names;
    char *text = arg;
    size_t used = strlen(text);
    for (int i = 0; i < columns; i++)
        used += (size_t)snprintf(text + used, 32768 - used, "%s|", values[i] ? values[i] : "");
    snprintf(text + used, 32768 - used, "\n");
    return 0;
}

static void describe(sqlite3 *db, char text[32768])
{
    text[0] = 0;
    cr_assert_eq(sqlite3_exec(db,
                              "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
                              " ORDER BY type, name",
                              collect, text, NULL),
                 SQLITE_OK);
}

Test(store_sqlite, migrations_lead_to_the_schema_that_readers_see)
{
    static char migrated[32768], written[32768];
    store_close(must_open());
    sqlite3 *db = open_raw();
    describe(db, migrated);
    sqlite3_close(db);
    struct disk disk = disk_os();
    char *sql;
    size_t size;
    cr_assert_eq(disk.read_file(disk.self, SCHEMA_SQL, 1 << 20, &sql, &size, NULL), 0);
    cr_assert_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
    exec_raw(db, sql);
    describe(db, written);
    sqlite3_close(db);
    free(sql);
    cr_assert_str_eq(migrated, written);
}

static void exec_file(sqlite3 *db, const char *path)
{
    struct disk disk = disk_os();
    char *sql;
    size_t size;
    cr_assert_eq(disk.read_file(disk.self, path, 1 << 20, &sql, &size, NULL), 0);
    exec_raw(db, sql);
    free(sql);
}

struct upgraded {
    int tokens, tenants;
    struct store_token agent;
    char names[256];
};

static void see_token(void *arg, const struct store_token *token)
{
    struct upgraded *ret = arg;
    ret->tokens++;
    if (strcmp(token->role, "agent") == 0)
        ret->agent = *token;
}

static void see_tenant(void *arg, const struct store_tenant *tenant)
{
    struct upgraded *ret = arg;
    size_t used = strlen(ret->names);
    snprintf(ret->names + used, sizeof(ret->names) - used, "%s=%d ", tenant->name, tenant->weight);
    ret->tenants++;
}

Test(store_sqlite, a_file_of_schema_1_keeps_its_tokens_and_gains_its_tenants)
{
    sqlite3 *db = open_raw();
    exec_file(db, MIGRATIONS "/0001_start.sql");
    exec_raw(db, "PRAGMA application_id = 1297306706; PRAGMA user_version = 1");
    exec_raw(db,
             "INSERT INTO tokens VALUES (zeroblob(32), 'admin', 5),"
             " (x'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', 'agent', 6)");
    exec_raw(db, "INSERT INTO meta VALUES ('cluster', 'c1')");
    exec_raw(db,
             "INSERT INTO jobs VALUES (1,'j1','a','vision','queued',10,0,zeroblob(32),'{}','{}'),"
             " (2,'j2','b','vision','queued',20,0,zeroblob(32),'{}','{}'),"
             " (3,'j3','c','default','queued',30,0,zeroblob(32),'{}','{}')");
    sqlite3_close(db);
    struct store *store = must_open();
    struct upgraded seen = {0};
    char value[STORE_META_VALUE_MAX + 1];
    cr_assert_eq(store->verbs->list_tokens(store, see_token, &seen, NULL), 0);
    cr_assert_eq(store->verbs->list_tenants(store, see_tenant, &seen, NULL), 0);
    cr_assert_eq(seen.tokens, 2);
    cr_assert_str_eq(seen.agent.id, "001122334455");
    cr_assert_str_eq(seen.agent.name, "agent");
    cr_assert_eq(seen.agent.hash[31], 0xff);
    cr_assert_eq(seen.agent.created_wall_ms, 6);
    cr_assert_eq(seen.agent.expires_wall_ms, 0);
    cr_assert_str_eq(seen.names, "default=1 vision=1 ");
    cr_assert_eq(store->verbs->get_meta(store, "cluster", value, NULL), 0);
    cr_assert_str_eq(value, "c1");
    store_close(store);
    db = open_raw();
    char text[32768] = "";
    cr_assert_eq(sqlite3_exec(db, "SELECT count(*) FROM jobs", collect, text, NULL), SQLITE_OK);
    cr_assert_str_eq(text, "3|\n");
    sqlite3_close(db);
}

static void read_past(void *arg, const struct store_past *past)
{
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, 2048 - used, "%s%llu %s %s\n", past->name,
             (unsigned long long)past->sequence, past->document, past->spec);
}

static void expect_past(struct store *store, enum store_past_kind kind, uint64_t seq,
                        const char *want)
{
    char text[2048] = "";
    struct error err = {0};
    struct store_past_query query = {.kind = kind, .seq = seq, .limit = 100};
    cr_assert_eq(store->verbs->list_past(store, &query, read_past, text, &err), 0, "%s", err.text);
    cr_expect_str_eq(text, want);
}

static const char old_rows[] =
    "INSERT INTO events VALUES (4,100,'k','j1','',1,'','','{}'), (5,200,'k','j1','',1,'','','{}');"
    "INSERT INTO jobs VALUES (7,'j7','a','default','queued',10,0,zeroblob(32),'{\"s\":1}',"
    "'{\"id\":\"j7\"}');"
    "INSERT INTO nodes VALUES ('n1','ready','{\"name\":\"n1\"}');";

/* What an older file holds is the oldest state that can be rebuilt; from there on all can. */
static void upgraded_past(int version)
{
    sqlite3 *db = open_raw();
    char pragma[80];
    exec_file(db, MIGRATIONS "/0001_start.sql");
    if (version > 1)
        exec_file(db, MIGRATIONS "/0002_tenants.sql");
    snprintf(pragma, sizeof(pragma), "PRAGMA application_id = 1297306706; PRAGMA user_version = %d",
             version);
    exec_raw(db, pragma);
    exec_raw(db, old_rows);
    sqlite3_close(db);
    struct store *store = must_open();
    struct store_past_range range;
    cr_assert_eq(store->verbs->past_range(store, 150, &range, NULL), 0);
    cr_expect_eq(range.first, 5);
    cr_expect_eq(range.last, 5);
    cr_expect_eq(range.at, 4);
    expect_past(store, STORE_PAST_JOB, 5, "7 {\"id\":\"j7\"} {\"s\":1}\n");
    expect_past(store, STORE_PAST_NODE, 5, "n10 {\"name\":\"n1\"} \n");
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    cr_assert_eq(store->verbs->forget_job(store, 7, NULL), 0);
    struct record record = {.reason.rank = -1};
    uint64_t seq;
    cr_assert_eq(store->verbs->record(store, &record, &seq, NULL), 0);
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
    struct store_past_query before = {.kind = STORE_PAST_JOB, .seq = 4, .limit = 1};
    cr_expect_eq(store->verbs->list_past(store, &before, read_past, NULL, NULL), E_OUT_OF_RANGE);
    store_close(store);
}

Test(store_sqlite, a_file_of_schema_1_begins_its_past_where_it_is)
{
    upgraded_past(1);
}

Test(store_sqlite, a_file_of_schema_2_begins_its_past_where_it_is)
{
    upgraded_past(2);
}

static void put_slots(struct store *store, const char *name, int slots)
{
    struct record record = {.reason.rank = -1};
    struct node *node = calloc(1, sizeof(*node));
    uint64_t seq;
    snprintf(node->name, sizeof(node->name), "%s", name);
    node->slots = slots;
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    cr_assert_eq(store->verbs->record(store, &record, &seq, NULL), 0);
    cr_assert_eq(store->verbs->put_node(store, node, NULL), 0);
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
    free(node);
}

Test(store_sqlite, the_oldest_changes_are_folded_and_what_is_left_reads_as_before)
{
    struct store *store = must_open();
    struct store_sqlite *self = self_of(store);
    struct store_past_range range;
    char before[2048] = "", after[2048] = "";
    for (int i = 1; i <= 100; i++)
        put_slots(store, i % 10 == 3 ? "rare" : "often", i);
    struct store_past_query query = {.kind = STORE_PAST_NODE, .seq = 80, .limit = 10};
    cr_assert_eq(store->verbs->list_past(store, &query, read_past, before, NULL), 0);
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    cr_assert_eq(store_sqlite_fold_past(self, 30 * 260, NULL), 0);
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
    cr_assert_eq(store->verbs->past_range(store, 0, &range, NULL), 0);
    cr_expect(range.first > 50 && range.first < 80, "from %d on", (int)range.first);
    cr_assert_eq(store->verbs->list_past(store, &query, read_past, after, NULL), 0);
    cr_expect_str_eq(after, before);
    cr_expect(strstr(before, "rare"));
    query.seq = range.first;
    cr_expect_eq(store->verbs->list_past(store, &query, read_past, after, NULL), 0);
    store_close(store);
    sqlite3 *db = open_raw();
    char text[64] = "";
    cr_assert_eq(sqlite3_exec(db, "SELECT count(*) < 50 FROM history", collect, text, NULL), 0);
    cr_expect_str_eq(text, "1|\n");
    sqlite3_close(db);
}

/* A fold works while the loop waits: one thing that changed thousands of times costs as much as
 * thousands of things, and what is left over is folded by the commits that follow. */
Test(store_sqlite, one_thing_that_changed_often_is_folded_as_fast_as_many)
{
    struct store *store = must_open();
    struct store_sqlite *self = self_of(store);
    put_slots(store, "often", 1);
    cr_assert_eq(sqlite3_exec(self->db,
                              "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n"
                              " WHERE i < 10009) INSERT INTO history SELECT i, 1, 'node', 'often',"
                              " i << 20, '{}', '' FROM n",
                              NULL, NULL, NULL),
                 0);
    self->commits = 63;
    put_slots(store, "often", 2);
    cr_expect(self->folds_on);
    int steps = sqlite3_stmt_status(self->statements[S_FOLD_HISTORY], SQLITE_STMTSTATUS_VM_STEP, 1);
    cr_expect(steps > 4000 && steps < 4000 * 100, "%d steps", steps);
    put_slots(store, "often", 3);
    put_slots(store, "often", 4);
    cr_expect(!self->folds_on);
    store_close(store);
    sqlite3 *db = open_raw();
    char text[64] = "";
    cr_assert_eq(sqlite3_exec(db, "SELECT count(*) < 1100 FROM history", collect, text, NULL), 0);
    cr_expect_str_eq(text, "1|\n");
    sqlite3_close(db);
}

Test(store_sqlite, a_second_owner_is_refused_and_told_who_has_it)
{
    struct store *first = must_open(), *second;
    struct error err = {0};
    char pid[16];
    cr_assert_eq(store_sqlite_open(dir, &second, &err), E_FAILED_PRECONDITION);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    cr_assert(strstr(err.text, pid), "%s", err.text);
    store_close(first);
    store_close(must_open());
}

Test(store_sqlite, files_hold_secrets_and_are_private)
{
    char path[96];
    struct stat info;
    struct store *store = must_open();
    snprintf(path, sizeof(path), "%s/muster.db", dir);
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 077, 0u);
    store_close(store);
}

Test(store_sqlite, newer_schema_is_refused_untouched)
{
    struct store *store;
    struct error err = {0};
    store_close(must_open());
    sqlite3 *db = open_raw();
    exec_raw(db, "PRAGMA user_version = 999");
    sqlite3_close(db);
    cr_assert_eq(store_sqlite_open(dir, &store, &err), E_FAILED_PRECONDITION);
    cr_assert(strstr(err.text, "999"), "%s", err.text);
}

Test(store_sqlite, another_applications_file_is_refused)
{
    struct store *store;
    struct error err = {0};
    sqlite3 *db = open_raw();
    exec_raw(db, "CREATE TABLE cookies (x)");
    sqlite3_close(db);
    cr_assert_eq(store_sqlite_open(dir, &store, &err), E_FAILED_PRECONDITION);
    cr_assert(strstr(err.text, "another application"), "%s", err.text);
}

Test(store_sqlite, damage_is_found_at_open)
{
    char path[96];
    struct store *store = must_open();
    struct error err = {0};
    for (int i = 0; i < 200; i++) {
        struct record record = {.kind = "x", .reason.rank = -1};
        uint64_t seq;
        memset(record.reason.text, 'y', 400);
        store->verbs->begin(store, NULL);
        store->verbs->record(store, &record, &seq, NULL);
        store->verbs->commit(store, NULL);
    }
    store_close(store);
    snprintf(path, sizeof(path), "%s/muster.db", dir);
    int fd = open(path, O_RDWR);
    static const char garbage[8192] = {1, 2, 3};
    struct stat info;
    cr_assert_eq(fstat(fd, &info), 0);
    cr_assert_gt(info.st_size, 40000);
    cr_assert_eq(pwrite(fd, garbage, sizeof(garbage), 24576), (ssize_t)sizeof(garbage));
    close(fd);
    cr_assert_eq(store_sqlite_open(dir, &store, &err), E_DATA_LOSS, "%s", err.text);
}

/* The last number the writer said was committed; -1 if none. */
static long kill_writer_after(int wait_ms)
{
    int pipe_fds[2];
    cr_assert_eq(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        close(pipe_fds[0]);
        execl(STORE_WRITER, STORE_WRITER, dir, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    long last = -1, number;
    struct pollfd ready = {.fd = pipe_fds[0], .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, 300000), 1, "the writer never committed");
    cr_assert_eq(read(pipe_fds[0], &number, sizeof(number)), (ssize_t)sizeof(number));
    last = number;
    fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
    for (int waited = 0; waited < wait_ms; waited++) {
        usleep(1000);
        while (read(pipe_fds[0], &number, sizeof(number)) == (ssize_t)sizeof(number))
            last = number;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(pipe_fds[0], &number, sizeof(number)) == (ssize_t)sizeof(number))
        last = number;
    close(pipe_fds[0]);
    return last;
}

static void count_event(void *arg, const struct store_event *event)
{
    uint64_t *last = arg;
    cr_assert_eq(event->seq, *last + 1, "a number is missing");
    *last = event->seq;
}

Test(store_sqlite, kill_9_loses_nothing_acknowledged)
{
    long before = 0;
    for (int round = 0; round < 25; round++) {
        long acknowledged = kill_writer_after(1 + round * 3 % 17);
        cr_assert_gt(acknowledged, before, "the writer went back");
        struct store *store = must_open();
        char value[STORE_META_VALUE_MAX + 1];
        cr_assert_eq(store->verbs->get_meta(store, "last", value, NULL), 0);
        long stored = strtol(value, NULL, 10);
        cr_assert_geq(stored, acknowledged, "commit %ld was acknowledged, %ld is there",
                      acknowledged, stored);
        uint64_t last = 0;
        for (uint64_t after = 0; last == after; after += STORE_EVENTS_PAGE_MAX) {
            struct store_events_query query = {.after = after, .limit = STORE_EVENTS_PAGE_MAX};
            cr_assert_eq(store->verbs->list_events(store, &query, count_event, &last, NULL), 0);
        }
        cr_assert_eq(last, (uint64_t)stored, "an event and its change were torn apart");
        store_close(store);
        before = stored;
    }
}

static void put_meta(struct store *store, const char *key, long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%ld", value);
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    cr_assert_eq(store->verbs->put_meta(store, key, text, NULL), 0);
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
}

static long get_meta(struct store *store, const char *key)
{
    char value[STORE_META_VALUE_MAX + 1];
    return store->verbs->get_meta(store, key, value, NULL) == 0 ? strtol(value, NULL, 10) : -1;
}

static void fill(struct store *store, int events)
{
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    for (int i = 0; i < events; i++) {
        struct record record = {.kind = "x", .reason.rank = -1};
        uint64_t seq;
        memset(record.reason.text, 'y', 400);
        cr_assert_eq(store->verbs->record(store, &record, &seq, NULL), 0);
    }
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
}

Test(store_sqlite, a_backup_holds_what_was_written_while_it_was_made)
{
    char copy[96], new_dir[96], partial[128];
    struct error err = {0};
    struct store *store = must_open();
    fill(store, 8000);
    snprintf(copy, sizeof(copy), "%s/copy.db", dir);
    snprintf(partial, sizeof(partial), "%s.partial", copy);
    cr_assert_eq(store->verbs->backup_begin(store, copy, &err), 0, "%s", err.text);
    cr_assert_eq(store->verbs->backup_begin(store, copy, &err), E_FAILED_PRECONDITION);
    bool done = false;
    long steps = 0;
    while (!done) {
        put_meta(store, "during", ++steps);
        cr_assert_neq(access(copy, F_OK), 0, "half a backup has the name of a whole one");
        cr_assert_eq(store->verbs->backup_step(store, &done, &err), 0, "%s", err.text);
    }
    cr_assert_gt(steps, 2, "one step copied everything: nobody else had a turn");
    cr_assert_eq(access(copy, F_OK), 0);
    cr_assert_neq(access(partial, F_OK), 0);
    cr_assert_eq(store->verbs->backup_begin(store, copy, &err), E_ALREADY_EXISTS);
    store_close(store);
    cr_assert_eq(store_sqlite_restore(dir, copy, &err), E_ALREADY_EXISTS);
    snprintf(new_dir, sizeof(new_dir), "%s/new", dir);
    cr_assert_eq(mkdir(new_dir, 0700), 0);
    cr_assert_eq(store_sqlite_restore(new_dir, copy, &err), 0, "%s", err.text);
    cr_assert_eq(store_sqlite_open(new_dir, &store, &err), 0, "%s", err.text);
    cr_assert_eq(get_meta(store, "during"), steps);
    cr_assert_eq(get_meta(store, STORE_FIRST_JOB_KEY), RESTORE_SKIPS_JOBS);
    store_close(store);
}

static char awaited[96]; /* a file: ... */
static int folder_syncs; /* ... how often its folder was synced while it was there */
static bool sync_fails;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat folder, synced;
    bool of_it = awaited[0] && access(awaited, F_OK) == 0 && stat(dir, &folder) == 0 &&
                 fstat(fd, &synced) == 0 && synced.st_ino == folder.st_ino;
    folder_syncs += of_it;
    if (!of_it || !sync_fails)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

/* Else a crash of the machine may take its name away after it was told to be there. */
Test(store_sqlite, the_name_of_a_backup_is_on_disk_before_it_is_told_of)
{
    for (int fails = 0; fails < 2; fails++) {
        struct error err = {0};
        struct store *store = must_open();
        snprintf(awaited, sizeof(awaited), "%s/copy-%d.db", dir, fails);
        sync_fails = fails;
        folder_syncs = 0;
        cr_assert_eq(store->verbs->backup_begin(store, awaited, &err), 0, "%s", err.text);
        int rc = 0;
        for (bool done = false; !done && !rc;)
            rc = store->verbs->backup_step(store, &done, &err);
        cr_expect_eq(folder_syncs, 1);
        cr_expect_eq(rc != 0, fails);
        store_close(store);
    }
}

Test(store_sqlite, a_restore_takes_no_damaged_and_no_foreign_file)
{
    char copy[96], path[128], new_dir[96];
    struct error err = {0};
    sqlite3 *db;
    snprintf(new_dir, sizeof(new_dir), "%s/new", dir);
    snprintf(copy, sizeof(copy), "%s/foreign.db", dir);
    snprintf(path, sizeof(path), "%s/muster.db", new_dir);
    cr_assert_eq(mkdir(new_dir, 0700), 0);
    cr_assert_eq(sqlite3_open(copy, &db), SQLITE_OK);
    exec_raw(db, "CREATE TABLE cookies (x)");
    sqlite3_close(db);
    cr_assert_eq(store_sqlite_restore(new_dir, copy, &err), E_FAILED_PRECONDITION);
    cr_assert_neq(store_sqlite_restore(new_dir, "/nonexistent/backup.db", &err), 0);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(store_sqlite, a_restore_steps_over_what_may_have_happened_since)
{
    char copy[128], new_dir[96], text[32768] = "";
    struct error err = {0};
    struct store *store = must_open();
    sqlite3 *db = open_raw();
    exec_raw(db, "INSERT INTO jobs VALUES"
                 " (7,'j7','a','default','running',10,0,zeroblob(32),'{}',"
                 "  '{\"next_generation\":5,\"next_uid\":6}'),"
                 " (8,'j8','b','default','failed',10,20,zeroblob(32),'{}',"
                 "  '{\"next_generation\":5,\"next_uid\":6}')");
    sqlite3_close(db);
    snprintf(copy, sizeof(copy), "%s/copy.db", dir);
    snprintf(new_dir, sizeof(new_dir), "%s/new", dir);
    cr_assert_eq(mkdir(new_dir, 0700), 0);
    cr_assert_eq(store->verbs->backup_begin(store, copy, &err), 0, "%s", err.text);
    for (bool done = false; !done;)
        cr_assert_eq(store->verbs->backup_step(store, &done, &err), 0, "%s", err.text);
    store_close(store);
    cr_assert_eq(store_sqlite_restore(new_dir, copy, &err), 0, "%s", err.text);
    snprintf(copy, sizeof(copy), "%s/muster.db", new_dir);
    cr_assert_eq(sqlite3_open(copy, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db,
                              "SELECT document ->> 'next_generation', document ->> 'next_uid'"
                              " FROM jobs ORDER BY sequence",
                              collect, text, NULL),
                 SQLITE_OK);
    sqlite3_close(db);
    cr_assert_str_eq(text, "1000005|1000006|\n5|6|\n");
}
