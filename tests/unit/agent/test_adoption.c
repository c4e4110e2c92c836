/* Workers without their agent or their shim, with real processes. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/output.h"
#include "agent/supervisor/rundir.h"
#include "common/env/proc.h"
#include "tests/lib/open_files.h"
#include "tests/unit/agent/supervisor_rig.h"

static struct rig rig;

static void begin(void)
{
    rig_init(&rig);
}

static void finish(void)
{
    rig_end(&rig);
}

TestSuite(adoption, .init = begin, .fini = finish);

#define LEAVE_CGROUP                                                                               \
    "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs;"                     \
    "do { echo 0 > $f; } 2>/dev/null; done;"

static bool alive(int64_t pid)
{
    return proc_alive((pid_t)pid, 0);
}

static const char *work_of(uint64_t uid)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/work/job.%d", rig.dir, (int)uid);
    return path;
}

/* What a script waits for with `while [ ! -e go ]`. */
static void let_go(uint64_t uid)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/go", work_of(uid));
    fclose(fopen(path, "w"));
}

static void expect_gone(int64_t pid)
{
    for (int i = 0; i < RIG_PATIENCE_MS && alive(pid); i += 10)
        usleep(10000);
    cr_expect_not(alive(pid));
}

/* Leaves a process that ignores signals and one of its children behind, each in a session of its
 * own; `first` runs before. */
static void expect_orphans_ended(const char *first)
{
    char script[512];
    snprintf(script, sizeof(script),
             "%s setsid sh -c 'trap \"\" TERM HUP; echo a=$$; (sleep 1000; :) & echo b=$!; wait' &"
             "while [ ! -e go ]; do sleep 0.05; done; exit 0",
             first);
    struct rig_worker *w = rig_sh(&rig, 1, script);
    int64_t a = rig_number(&rig, 1, "a="), b = rig_number(&rig, 1, "b=");
    cr_expect(alive(a) && alive(b));
    let_go(1);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 0);
    cr_expect_not(alive(a));
    cr_expect_not(alive(b));
}

Test(adoption, what_it_leaves_behind_is_ended)
{
    expect_orphans_ended("");
}

Test(adoption, who_leaves_its_cgroup_does_not_escape)
{
    expect_orphans_ended(LEAVE_CGROUP);
}

static void expect_end_without_shim(bool found_again)
{
    char token[64];
    const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    const char *const argv[] = {"sh", "-c", LEAVE_CGROUP "setsid sleep 1000 & echo child=$!; wait",
                                NULL};
    struct launch launch = {
        .key = {.job = "job", .uid = 1}, .argv = argv, .envp = envp, .token = token, .workdir = ""};
    struct error err;
    snprintf(token, sizeof(token), "tok-%d", (int)getpid());
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    int64_t child = rig_number(&rig, 1, "child=");
    if (found_again)
        rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_expect_str_eq(w->adopted.memory.tokens[0], found_again ? token : "");
    launch.key.uid = 10;
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    rig_number(&rig, 10, "child=");
    kill(rig_shim(&rig, 1), SIGKILL);
    cr_assert(rig_until(&rig, &w->ended));
    rig_turn(&rig, 100);
    cr_expect_not(rig_worker(&rig, 10)->ended, "whose file's name ends alike");
    cr_expect(w->exit.lost);
    cr_expect_str_eq(w->exit.text, "its shim was killed, and the worker with it");
    for (int i = 0; i < RIG_PATIENCE_MS && (alive(w->pid) || alive(child)); i += 10)
        rig_turn(&rig, 10);
    cr_expect_not(alive(w->pid));
    cr_expect_not(alive(child));
    rig_restart(&rig);
    cr_expect_str_eq(rig_worker(&rig, 1)->adopted.exit.text,
                     "its shim was killed, and the worker with it");
}

Test(adoption, without_its_shim_a_worker_ends_and_that_is_reported)
{
    expect_end_without_shim(false);
}

Test(adoption, without_its_shim_a_worker_that_was_found_again_ends_too)
{
    expect_end_without_shim(true);
}

/* Killed between making it and recording it: neither it nor who is in it stays. */
Test(adoption, a_cgroup_that_its_shim_did_not_record_goes_with_it)
{
    const char *const argv[] = {"sh", "-c", "echo me=$$; exec env -i sleep 1000", NULL};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .processes = 100};
    struct error err;
    struct run_worker record;
    char path[RUNDIR_PATH_MAX];
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
    int64_t pid = rig_number(&rig, 1, "me=");
    struct rundir dir = rig_run_dir(&rig, 1);
    cr_assert_eq(rundir_read_worker(&dir, &record, NULL), 0);
    if (!record.cgroup[0])
        cr_skip_test("no cgroups here");
    cr_assert_eq(access(record.cgroup, F_OK), 0);
    cr_assert_eq(rundir_file(&dir, "worker.json", path, NULL), 0);
    pid_t shim = rig_shim(&rig, 1);
    kill(shim, SIGKILL);
    unlink(path);
    waitpid(shim, NULL, 0);
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(w->adopted.exited || rig_until(&rig, &w->ended));
    expect_gone(pid);
    cr_expect_neq(access(record.cgroup, F_OK), 0, "%s stays", record.cgroup);
    if (record.cgroup_pids[0])
        cr_expect_neq(access(record.cgroup_pids, F_OK), 0, "%s stays", record.cgroup_pids);
}

Test(adoption, a_worker_outlives_its_agent_and_is_found_again)
{
    struct rig_worker *w = rig_sh(&rig, 1,
                                  "echo before; while [ ! -e go ]; do sleep 0.05; done;"
                                  "echo after; exit 4");
    struct worker_memory memory = {.aware = true, .generation = 6, .tokens = {"new", "old"}};
    char path[128];
    cr_assert(rig_until(&rig, &w->started) && rig_output_has(&rig, 1, "before"));
    rig.launcher.remember(rig.launcher.self, &w->key, &memory);
    int64_t pid = w->pid;
    rig_restart(&rig);
    w = rig_worker(&rig, 1);
    cr_assert(w->found);
    cr_expect_not(w->adopted.exited);
    cr_expect_eq(w->adopted.pid, pid);
    cr_expect_eq(w->adopted.rank, 3);
    cr_expect_eq(w->adopted.memory.generation, 6);
    cr_expect(w->adopted.memory.aware);
    cr_expect_str_eq(w->adopted.memory.tokens[1], "old");
    cr_expect(alive(pid));
    rig_turn(&rig, 100);
    cr_expect_eq(w->outputs, 1, "what it wrote before is told of");
    snprintf(path, sizeof(path), "%s/work/job.1/go", rig.dir);
    fclose(fopen(path, "w"));
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 4);
    rig_expect_output(&rig, 1, "o before\no after\n");
}

Test(adoption, an_end_without_an_agent_is_not_missed)
{
    struct rig_worker *w = rig_sh(&rig, 1, "while [ ! -e go ]; do sleep 0.05; done; exit 5");
    cr_assert(rig_until(&rig, &w->started));
    launcher_shim_free(rig.shims);
    rig.shims = NULL;
    let_go(1);
    while (waitpid(-1, NULL, 0) > 0)
        ; /* its shim, which has recorded the end then */
    rig_restart(&rig);
    w = rig_worker(&rig, 1);
    cr_assert(w->found && w->adopted.exited);
    cr_expect_eq(w->adopted.exit.code, 5);
}

static int (*read_file)(void *self, const char *path, size_t max, char **ret_data, size_t *ret_size,
                        struct error *err);

/* The shim writes how it ended after it was looked for, and ends. */
static int read_as_it_ends(void *self, const char *path, size_t max, char **ret_data,
                           size_t *ret_size, struct error *err)
{
    struct worker_exit exit = {.code = 6};
    struct rundir dir = rig_run_dir(&rig, 1);
    if (strcmp(strrchr(path, '/'), "/shim.json") == 0)
        (void)rundir_write_exit(&dir, &exit, NULL);
    return read_file(self, path, max, ret_data, ret_size, err);
}

Test(adoption, an_end_recorded_while_it_is_looked_for_is_not_missed)
{
    const char *const argv[] = {"true", NULL};
    struct run_launch run = {
        .work = work_of(1),
        .launch = {
            .key = {.job = "job", .uid = 1}, .argv = argv, .envp = rig_environment, .workdir = ""}};
    struct run_process gone = {.pid = 1 << 30};
    struct rundir dir = rig_run_dir(&rig, 1);
    cr_assert_eq(rundir_create(&dir, &run, NULL), 0);
    cr_assert_eq(rundir_claim(&dir, &gone, NULL), 0);
    read_file = rig.env.disk.read_file;
    rig.env.disk.read_file = read_as_it_ends;
    rig_restart(&rig);
    cr_assert(rig_worker(&rig, 1)->adopted.exited);
    cr_expect_eq(rig_worker(&rig, 1)->adopted.exit.code, 6);
    cr_expect_not(rig_worker(&rig, 1)->adopted.exit.lost);
}

Test(adoption, a_shim_lost_without_an_agent_is_settled_later)
{
    struct rig_worker *w = rig_sh(&rig, 1, "sleep 1000");
    struct run_process shim;
    struct rundir dir;
    char path[128];
    cr_assert(rig_until(&rig, &w->started));
    int64_t pid = w->pid;
    launcher_shim_free(rig.shims);
    rig.shims = NULL;
    snprintf(path, sizeof(path), "%s/runs/job.1", rig.dir);
    rundir_init(&dir, &rig.env.disk, path, NULL);
    cr_assert_eq(rundir_read_shim(&dir, &shim, NULL), 0);
    kill((pid_t)shim.pid, SIGKILL);
    waitpid((pid_t)shim.pid, NULL, 0);
    expect_gone(pid); /* it dies with its shim, agent or not */
    rig_restart(&rig);
    w = rig_worker(&rig, 1);
    cr_assert(w->found);
    cr_assert(w->adopted.exited || rig_until(&rig, &w->ended));
    cr_expect(w->adopted.exited ? w->adopted.exit.lost : w->exit.lost);
}

Test(adoption, a_key_is_started_once_ever)
{
    struct error err;
    const char *const argv[] = {"true", NULL};
    struct launch launch = {
        .key = {.job = "job", .uid = 1}, .argv = argv, .envp = rig_environment, .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    cr_expect_eq(rig_launch(&rig, &launch, &err), E_ALREADY_EXISTS);
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->ended));
    rig_restart(&rig);
    cr_expect_eq(rig_launch(&rig, &launch, &err), E_ALREADY_EXISTS);
}

Test(adoption, a_shim_that_comes_too_late_starts_nothing)
{
    char path[128], command[512];
    struct rundir dir;
    struct error err;
    const char *const argv[] = {"touch", "ran", NULL};
    struct run_launch run = {
        .work = work_of(9),
        .launch = {
            .key = {.job = "job", .uid = 9}, .argv = argv, .envp = rig_environment, .workdir = ""}};
    snprintf(path, sizeof(path), "%s/runs/job.9", rig.dir);
    rundir_init(&dir, &rig.env.disk, path, NULL);
    cr_assert_eq(rundir_create(&dir, &run, &err), 0, "%s", err.text);
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 9);
    cr_assert(w->found && w->adopted.exited && w->adopted.exit.lost);
    snprintf(command, sizeof(command), "%s --dir %s 2>/dev/null", SHIM_PROGRAM, path);
    cr_expect_eq(WEXITSTATUS(system(command)), 1);
    snprintf(path, sizeof(path), "%s/work/job.9/ran", rig.dir);
    cr_expect_neq(access(path, F_OK), 0);
}

Test(adoption, what_no_agent_can_read_is_told_as_lost_and_can_be_forgotten)
{
    struct rundir dir = rig_run_dir(&rig, 5);
    cr_assert_eq(mkdir(dir.path, 0711), 0);
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 5);
    cr_assert(w->found);
    cr_expect(w->adopted.exited && w->adopted.exit.lost);
    rig.launcher.forget(rig.launcher.self, &w->key);
    cr_expect_neq(access(dir.path, F_OK), 0);
}

Test(adoption, what_another_agent_started_is_not_ours_to_forget)
{
    const char *const argv[] = {"true", NULL};
    struct run_launch run = {
        .work = work_of(1),
        .launch = {
            .key = {.job = "job", .uid = 1}, .argv = argv, .envp = rig_environment, .workdir = ""}};
    struct rundir dir = rig_run_dir(&rig, 1);
    struct error err;
    cr_assert_eq(rundir_create(&dir, &run, NULL), 0);
    cr_expect_eq(rig_launch(&rig, &run.launch, &err), E_ALREADY_EXISTS);
    rig.launcher.forget(rig.launcher.self, &run.launch.key);
    cr_expect_eq(access(dir.path, F_OK), 0);
}
