/* The run directory of a worker: what is in it comes back, who may read it, what outlives a crash.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/supervisor/rundir.h"
#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "tests/lib/tmpdir.h"

static struct tmpdir folder;
static struct disk real, disk;
static struct rundir dir;
static char work[RUNDIR_PATH_MAX];
static char durable[256]; /* names of files that were written so that a crash leaves them */

static int note_durable(void *self, const char *path, const void *data, size_t size, int mode,
                        struct error *err)
{
    size_t used = strlen(durable);
    snprintf(durable + used, sizeof(durable) - used, "%s ", strrchr(path, '/') + 1);
    return real.write_file(self, path, data, size, mode, err);
}

static struct launch_user user = {.groups = {1003, 1004}, .groups_count = 2};
static struct run_launch how = {.launch = {.key = {.job = "j7", .uid = 3},
                                           .generation = 5,
                                           .rank = 2,
                                           .argv = (const char *const[]){"/bin/echo", "a b", NULL},
                                           .envp = (const char *const[]){"A=1", "B=", NULL},
                                           .workdir = "/w",
                                           .memory_bytes = UINT64_C(3) << 40,
                                           .cores = "0-3,8",
                                           .user = &user,
                                           .gpus = {195, 1, {3}},
                                           .master_port = 29400,
                                           .master_addr = "10.0.0.1"},
                                .job_gpus = {195, 2, {0, 3}}};

static void begin(void)
{
    folder = tmpdir_make();
    real = disk = disk_os();
    disk.write_file = note_durable;
    durable[0] = 0;
    cr_assert_eq(rundir_init(&dir, &disk, tmpdir_path(&folder, "j7.3"), NULL), 0);
    (void)str_copy(work, sizeof(work), tmpdir_path(&folder, "work"));
    how.work = work;
    user.uid = geteuid();
    user.gid = getegid();
    cr_assert_eq(rundir_create(&dir, &how, NULL), 0);
}

static void end(void)
{
    tmpdir_remove(&folder);
}

TestSuite(rundir, .init = begin, .fini = end);

static int mode_of(const char *name)
{
    char path[RUNDIR_PATH_MAX];
    struct stat status;
    cr_assert_eq(rundir_file(&dir, name, path, NULL), 0);
    cr_assert_eq(stat(path, &status), 0, "%s", name);
    return status.st_mode & 0777;
}

Test(rundir, a_launch_comes_back_and_is_made_once)
{
    struct arena arena = {0};
    struct run_launch back;
    const struct launch *a = &how.launch, *b = &back.launch;
    cr_assert_eq(rundir_read_launch(&dir, &arena, &back, NULL), 0);
    cr_expect_str_eq(b->key.job, a->key.job);
    cr_expect(b->key.uid == a->key.uid && b->generation == a->generation && b->rank == a->rank);
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(b->argv[i], a->argv[i]);
        cr_expect_str_eq(b->envp[i], a->envp[i]);
    }
    cr_expect(!b->argv[2] && !b->envp[2]);
    cr_expect_str_eq(b->workdir, a->workdir);
    cr_expect_str_eq(back.work, work);
    cr_expect_str_eq(b->cores, a->cores);
    cr_expect_str_eq(b->master_addr, a->master_addr);
    cr_expect(b->memory_bytes == a->memory_bytes && b->master_port == a->master_port);
    cr_expect_eq(memcmp(&b->gpus, &a->gpus, sizeof(a->gpus)), 0);
    cr_expect_eq(memcmp(&back.job_gpus, &how.job_gpus, sizeof(how.job_gpus)), 0);
    cr_expect(b->user && b->user->uid == user.uid && b->user->gid == user.gid);
    cr_expect(b->user->groups_count == 2 && b->user->groups[1] == 1004);
    cr_expect_eq(rundir_create(&dir, &how, NULL), E_ALREADY_EXISTS);
    arena_fini(&arena);
}

Test(rundir, the_first_claim_counts_and_leaves_nothing_else)
{
    struct run_process first = {.pid = 11, .start_ticks = 12, .boot = "b"}, second = {.pid = 21},
                       back;
    char **names;
    cr_assert_eq(rundir_read_shim(&dir, &back, NULL), E_NOT_FOUND);
    cr_assert_eq(rundir_claim(&dir, &first, NULL), 0);
    cr_expect_eq(rundir_claim(&dir, &second, NULL), E_ALREADY_EXISTS);
    cr_assert_eq(rundir_read_shim(&dir, &back, NULL), 0);
    cr_expect(back.pid == 11 && back.start_ticks == 12);
    cr_expect_str_eq(back.boot, "b");
    cr_assert_eq(real.list(real.self, dir.path, &names, NULL), 0);
    static const char *const there[] = {"launch.json", "shim.json"};
    for (int i = 0; i < 2; i++)
        cr_expect(names[i] && strcmp(names[i], there[i]) == 0, "%s", names[i]);
    cr_expect_null(names[2]);
    free(names);
}

Test(rundir, records_come_back)
{
    struct run_worker worker = {{31, 32, "b"}, "/cg", "/pids", "/devices", "no such program", 127},
                      worker_back = {0};
    struct worker_exit exit = {7, 9, true, true, 1234, "killed", "last\nwords\n"}, exit_back = {0};
    struct worker_memory memory = {.aware = true, .generation = 4, .step = 8, .total_steps = 9},
                         memory_back = {0};
    struct run_acked acked = {40, 50}, acked_back = {0};
    snprintf(memory.tokens[0], sizeof(memory.tokens[0]), "secret");
    cr_assert_eq(rundir_write_worker(&dir, &worker, NULL), 0);
    cr_assert_eq(rundir_read_worker(&dir, &worker_back, NULL), 0);
    cr_expect_eq(memcmp(&worker, &worker_back, sizeof(worker)), 0);
    cr_assert_eq(rundir_write_exit(&dir, &exit, NULL), 0);
    cr_assert_eq(rundir_read_exit(&dir, &exit_back, NULL), 0);
    cr_expect_eq(memcmp(&exit, &exit_back, sizeof(exit)), 0);
    cr_assert_eq(rundir_write_memory(&dir, &memory, NULL), 0);
    cr_assert_eq(rundir_read_memory(&dir, &memory_back, NULL), 0);
    cr_expect_eq(memcmp(&memory, &memory_back, sizeof(memory)), 0);
    cr_assert_eq(rundir_write_acked(&dir, &acked, NULL), 0);
    cr_assert_eq(rundir_read_acked(&dir, &acked_back, NULL), 0);
    cr_expect(acked_back.lines == 40 && acked_back.bytes == 50);
    cr_expect_str_eq(durable, "exit.json "); /* known after a crash of the machine, too */
}

/* That a worker was started must be known after a crash of the machine, but its shim waits for the
 * disk, not the agent that makes the directory. */
Test(rundir, its_launch_is_made_durable_apart_from_its_making)
{
    struct arena arena = {0};
    struct run_launch back;
    cr_expect_str_eq(durable, "");
    cr_assert_eq(rundir_settle(&dir, NULL), 0);
    cr_expect_str_eq(durable, "launch.json ");
    cr_assert_eq(rundir_read_launch(&dir, &arena, &back, NULL), 0);
    cr_expect_str_eq(back.launch.argv[1], "a b");
    arena_fini(&arena);
}

/* A full disk leaves what was there before, and nothing beside it. */
Test(rundir, a_record_is_whole_or_as_it_was)
{
    struct worker_memory first = {.generation = 4}, second = {.generation = 5}, back = {0};
    struct rlimit before, small;
    char path[RUNDIR_PATH_MAX];
    cr_assert_eq(rundir_write_memory(&dir, &first, NULL), 0);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 10, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = rundir_write_memory(&dir, &second, NULL);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_expect_neq(rc, 0);
    cr_assert_eq(rundir_read_memory(&dir, &back, NULL), 0);
    cr_expect_eq(back.generation, 4);
    cr_assert_eq(rundir_file(&dir, "memory.json.new", path, NULL), 0);
    cr_expect_neq(access(path, F_OK), 0);
}

Test(rundir, secrets_are_for_the_agent_alone)
{
    struct worker_memory memory = {.aware = true};
    struct run_worker worker = {.start_code = 1};
    (void)umask(0);
    cr_assert_eq(rundir_write_memory(&dir, &memory, NULL), 0);
    cr_assert_eq(rundir_write_worker(&dir, &worker, NULL), 0);
    cr_expect_eq(mode_of("launch.json"), 0600);
    cr_expect_eq(mode_of("memory.json"), 0600);
    cr_expect_eq(mode_of("worker.json"), 0600);
    cr_expect_eq(mode_of(""), 0700);
    cr_expect_eq(mode_of("../work"), 0700);
}

Test(rundir, names_are_plain_files_of_one_worker)
{
    static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "../a", "a b"};
    struct worker_key key = {.job = "j-1.x", .uid = 12}, back;
    char name[RUNDIR_PATH_MAX];
    cr_assert_eq(rundir_name(&key, name, NULL), 0);
    cr_expect_str_eq(name, "j-1.x.12");
    cr_assert_eq(rundir_parse_name(name, &back), 0);
    cr_expect_str_eq(back.job, key.job);
    cr_expect_eq(back.uid, key.uid);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(key.job, sizeof(key.job), "%s", bad[i]);
        cr_expect_eq(rundir_name(&key, name, NULL), E_INVALID_ARGUMENT, "'%s'", bad[i]);
    }
    cr_expect_eq(rundir_parse_name(".5", &back), E_INVALID_ARGUMENT);
    cr_expect_eq(rundir_parse_name("j1", &back), E_INVALID_ARGUMENT);
    cr_expect_eq(rundir_parse_name("j1.x", &back), E_INVALID_ARGUMENT);
}

/* A number is given out again, by this kernel or by the next. */
Test(rundir, a_process_is_itself_only_on_this_boot)
{
    struct run_process self;
    cr_assert_eq(run_process_of(getpid(), &self, NULL), 0);
    cr_expect(run_process_alive(&self));
    struct run_process other = self;
    other.start_ticks++;
    cr_expect_not(run_process_alive(&other));
    other = self;
    other.boot[0] ^= 1;
    cr_expect_not(run_process_alive(&other));
    other = self;
    other.pid = 0;
    cr_expect_not(run_process_alive(&other));
}
