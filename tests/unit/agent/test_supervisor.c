/* The shim and its launcher with real processes. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
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
    rig_fini(&rig);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a zombie is left");
}

#define LEAVE_CGROUP                                                                               \
    "for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs;"                     \
    "do { echo 0 > $f; } 2>/dev/null; done;"

TestSuite(supervisor, .init = begin, .fini = finish);

static void expect_output(uint64_t uid, const char *expected)
{
    char *output = rig_output(&rig, uid);
    cr_expect_str_eq(output, expected, "%s", output);
    free(output);
}

static bool alive(int64_t pid)
{
    return proc_alive((pid_t)pid, 0);
}

/* The number in a line "name=123" of its output, waited for. */
static int64_t number_of(uint64_t uid, const char *name)
{
    cr_assert(rig_output_has(&rig, uid, name), "no %s", name);
    char *output = rig_output(&rig, uid);
    int64_t number = atoll(strstr(output, name) + strlen(name));
    free(output);
    return number;
}

static const char *work_of(uint64_t uid)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/work/job.%d", rig.dir, (int)uid);
    return path;
}

static struct rundir dir_of(uint64_t uid)
{
    struct rundir dir;
    char path[128];
    snprintf(path, sizeof(path), "%s/runs/job.%d", rig.dir, (int)uid);
    cr_assert_eq(rundir_init(&dir, &rig.env.disk, path, NULL), 0);
    return dir;
}

static pid_t shim_of(uint64_t uid)
{
    struct rundir dir = dir_of(uid);
    struct run_process shim;
    struct error err;
    cr_assert_eq(rundir_read_shim(&dir, &shim, &err), 0, "%s", err.text);
    return (pid_t)shim.pid;
}

Test(supervisor, exit_code_and_output_are_recorded)
{
    /* Two pipes have no order: each line is written when the one before has been recorded. */
    struct rig_worker *w =
        rig_sh(&rig, 1,
               "recorded() { until grep -q $1 ../../runs/job.1/output; do sleep 0.01; done; };"
               "echo out; recorded out; echo err >&2; recorded err; printf unfinished; exit 3");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->started);
    cr_expect_eq(w->exit.code, 3);
    cr_expect_eq(w->exit.signal, 0);
    cr_expect_str_eq(w->exit.text, "exited with code 3");
    cr_expect_str_eq(w->exit.last_output, "out\nerr\nunfinished\n");
    expect_output(1, "o out\ne err\no unfinished\n");
    cr_expect_geq(w->outputs, 1);
    struct run_worker record;
    struct rundir dir = dir_of(1);
    cr_assert_eq(rundir_read_worker(&dir, &record, NULL), 0);
    cr_expect(!record.cgroup[0] || access(record.cgroup, F_OK) != 0, "%s is left", record.cgroup);
}

Test(supervisor, output_is_told_once)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo once; sleep 0.2");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->outputs, 1);
}

static void launch_on(uint64_t uid, const char *cores)
{
    struct error err;
    const char *const argv[] = {"sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000",
                                NULL};
    struct launch launch = {.key = {.job = "job", .uid = uid},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .cores = cores};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
}

/* On the last core this process may use, and not its shim; on a range, of which it has those that
 * are there. */
Test(supervisor, a_worker_is_pinned_to_its_cores)
{
    char cores[16], expected[128], line[128];
    cpu_set_t allowed, of_shim;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &allowed))
        last--;
    snprintf(cores, sizeof cores, "%d", last);
    snprintf(expected, sizeof expected, "o Cpus_allowed_list:\t%d\n", last);
    launch_on(1, cores);
    cr_expect(rig_output_has(&rig, 1, expected));
    cr_assert_eq(sched_getaffinity(shim_of(1), sizeof of_shim, &of_shim), 0);
    cr_expect(CPU_EQUAL(&of_shim, &allowed));

    FILE *status = fopen("/proc/self/status", "r");
    do
        cr_assert_not_null(fgets(line, sizeof line, status));
    while (strncmp(line, "Cpus_allowed_list", 17) != 0);
    fclose(status);
    snprintf(cores, sizeof cores, "0-%d", last);
    snprintf(expected, sizeof expected, "o %.100s", line);
    launch_on(2, cores);
    cr_expect(rig_output_has(&rig, 2, expected));
}

static bool score_of_self(int score)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    bool written = file && fprintf(file, "%d", score) > 0;
    if (file)
        written = fclose(file) == 0 && written;
    return written;
}

/* The unit of the agent protects it; what it starts is what should go first. */
Test(supervisor, a_worker_ends_before_its_agent_when_memory_is_short)
{
    (void)score_of_self(-500); /* as the unit does; not everybody may */
    struct rig_worker *w = rig_sh(&rig, 1, "cat /proc/self/oom_score_adj");
    cr_assert(rig_until(&rig, &w->ended));
    expect_output(1, "o 500\n");
    cr_assert(score_of_self(700));
    w = rig_sh(&rig, 2, "cat /proc/self/oom_score_adj");
    cr_assert(rig_until(&rig, &w->ended));
    expect_output(2, "o 700\n");
}

Test(supervisor, files_of_a_worker_are_its_agents_alone)
{
    struct stat status;
    char path[256];
    umask(0);
    struct rig_worker *w = rig_sh(&rig, 1, "echo secret; echo secret >&2; exit 3");
    cr_assert(rig_until(&rig, &w->ended));
    struct worker_memory memory = {.aware = true};
    rig.launcher.remember(rig.launcher.self, &w->key, &memory);
    struct output_batch batch;
    cr_assert_eq(rig.launcher.read_output(rig.launcher.self, &w->key, 1000, &batch, NULL), 0);
    rig.launcher.acknowledge(rig.launcher.self, &w->key, 2);
    output_batch_fini(&batch);
    static const char *const files[] = {"launch.json", "shim.json",   "worker.json", "output",
                                        "exit.json",   "memory.json", "acked.json",  "shim.log"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/runs/job.1/%s", rig.dir, files[i]);
        cr_assert_eq(stat(path, &status), 0, "%s", path);
        cr_expect_eq(status.st_mode & 0777, 0600, "%s: %o", files[i], status.st_mode);
    }
    static const char *const folders[] = {"runs", "runs/job.1", "work/job.1"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", rig.dir, folders[i]);
        cr_assert_eq(stat(path, &status), 0, "%s", path);
        cr_expect_eq(status.st_mode & 0777, 0700, "%s: %o", folders[i], status.st_mode);
    }
}

Test(supervisor, a_signal_is_named)
{
    struct rig_worker *w = rig_sh(&rig, 1, "kill -SEGV $$");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGSEGV);
    cr_expect(strncmp(w->exit.text, "killed by SIGSEGV", 17) == 0, "%s", w->exit.text);
}

Test(supervisor, death_by_memory_is_told_from_other_deaths)
{
    struct cgroup probe;
    struct cgroup_limits limits = {.memory_bytes = 64 << 20};
    cgroup_create(&rig.home, "test-probe", &limits, &probe);
    cgroup_remove(&probe);
    if (probe.kind == CGROUP_NONE || probe.why[0]) {
        fprintf(stderr, "SKIPPED: %s\n", probe.why);
        return;
    }
    struct error err;
    const char *const argv[] = {"tail", "/dev/zero", NULL};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .memory_bytes = 32 << 20};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.oom);
    cr_expect_eq(w->exit.signal, SIGKILL);
    cr_expect(strstr(w->exit.text, "out of memory"), "%s", w->exit.text);
    cr_expect(strstr(w->exit.text, "of 32 MiB"), "%s", w->exit.text);
    w = rig_sh(&rig, 2, "kill -KILL $$");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_not(w->exit.oom);
    const char *const part[] = {"sh", "-c", "tail /dev/zero; echo over=1; sleep 1000", NULL};
    launch.key.uid = 3;
    launch.argv = part;
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    number_of(3, "over=");
    kill(shim_of(3), SIGKILL);
    w = rig_worker(&rig, 3);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.lost && w->exit.oom, "also when its shim cannot say so");
}

Test(supervisor, terminate_reaches_the_whole_group)
{
    struct rig_worker *w =
        rig_sh(&rig, 1,
               "sh -c 'trap \"echo child heard; exit\" TERM; echo ready=1; while :; do sleep 0.05;"
               " done' & trap 'wait; exit 9' TERM; wait");
    number_of(1, "ready=");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 9);
    cr_expect(strstr(w->exit.last_output, "child heard"), "%s", w->exit.last_output);
}

Test(supervisor, terminate_before_it_started_is_not_lost)
{
    struct rig_worker *w = rig_sh(&rig, 1, "sleep 1000");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGTERM);
    cr_expect_str_eq(w->exit.text, "killed by SIGTERM (asked to stop)");
}

Test(supervisor, who_ignores_sigterm_is_killed)
{
    struct rig_worker *w =
        rig_sh(&rig, 1, "trap '' TERM; echo ready=1; while :; do sleep 0.1; done");
    number_of(1, "ready=");
    rig.launcher.terminate(rig.launcher.self, &w->key);
    rig_turn(&rig, 300);
    cr_expect_not(w->ended);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGKILL);
    cr_expect_str_eq(w->exit.text, "killed by SIGKILL (asked to stop)");
}

Test(supervisor, who_is_killed_at_once_was_asked_to)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo ready=1; sleep 1000");
    number_of(1, "ready=");
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_str_eq(w->exit.text, "killed by SIGKILL (asked to stop)");
}

/* Ctrl-C and a hang-up are for the agent. */
Test(supervisor, a_shim_stays_whatever_its_terminal_says)
{
    struct rig_worker *w =
        rig_sh(&rig, 1, "echo ready=1; while [ ! -e go ]; do sleep 0.05; done; exit 4");
    char path[128];
    number_of(1, "ready=");
    kill(shim_of(1), SIGHUP);
    kill(shim_of(1), SIGINT);
    rig_turn(&rig, 50);
    snprintf(path, sizeof(path), "%s/work/job.1/go", rig.dir);
    fclose(fopen(path, "w"));
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 4, "%s", w->exit.text);
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
    int64_t a = number_of(1, "a="), b = number_of(1, "b=");
    cr_expect(alive(a) && alive(b));
    let_go(1);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 0);
    cr_expect_not(alive(a));
    cr_expect_not(alive(b));
}

Test(supervisor, what_it_leaves_behind_is_ended)
{
    expect_orphans_ended("");
}

Test(supervisor, who_leaves_its_cgroup_does_not_escape)
{
    expect_orphans_ended(LEAVE_CGROUP);
}

Test(supervisor, the_worker_inherits_nothing)
{
    struct error err;
    struct rlimit cores;
    cr_assert_eq(getrlimit(RLIMIT_CORE, &cores), 0);
    cores.rlim_cur = cores.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_CORE, &cores), 0);
    const char *const ls[] = {"ls", "/proc/self/fd", NULL};
    struct launch launch = {
        .key = {.job = "job", .uid = 1}, .argv = ls, .envp = rig_environment, .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->ended));
    expect_output(1, "o 0\no 1\no 2\no 3\n"); /* 3 is the folder that ls reads */
    struct rig_worker *w =
        rig_sh(&rig, 2,
               "readlink /proc/$$/fd/0; grep NoNewPrivs /proc/self/status | tr '\t' ' ';"
               "grep SigIgn /proc/$$/status | tr '\t' ' ';"
               "ps -o sid= -p $$ | tr -d ' ' > sid; test $(cat sid) = $$ && echo own session;"
               "ulimit -c; env | grep -v ^PWD | sort | tr '\n' ' '; echo");
    cr_assert(rig_until(&rig, &w->ended));
    expect_output(2, "o /dev/null\no NoNewPrivs: 1\no SigIgn: 0000000000000000\n"
                     "o own session\no 0\no PATH=/usr/local/bin:/usr/bin:/bin \n");
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
    int64_t child = number_of(1, "child=");
    if (found_again)
        rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_expect_str_eq(w->adopted.memory.tokens[0], found_again ? token : "");
    launch.key.uid = 10;
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0);
    number_of(10, "child=");
    kill(shim_of(1), SIGKILL);
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

Test(supervisor, without_its_shim_a_worker_ends_and_that_is_reported)
{
    expect_end_without_shim(false);
}

Test(supervisor, without_its_shim_a_worker_that_was_found_again_ends_too)
{
    expect_end_without_shim(true);
}

Test(supervisor, a_worker_outlives_its_agent_and_is_found_again)
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
    expect_output(1, "o before\no after\n");
}

Test(supervisor, an_end_without_an_agent_is_not_missed)
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
    struct rundir dir = dir_of(1);
    if (strcmp(strrchr(path, '/'), "/shim.json") == 0)
        (void)rundir_write_exit(&dir, &exit, NULL);
    return read_file(self, path, max, ret_data, ret_size, err);
}

Test(supervisor, an_end_recorded_while_it_is_looked_for_is_not_missed)
{
    const char *const argv[] = {"true", NULL};
    struct run_launch run = {
        .work = work_of(1),
        .launch = {
            .key = {.job = "job", .uid = 1}, .argv = argv, .envp = rig_environment, .workdir = ""}};
    struct run_process gone = {.pid = 1 << 30};
    struct rundir dir = dir_of(1);
    cr_assert_eq(rundir_create(&dir, &run, NULL), 0);
    cr_assert_eq(rundir_claim(&dir, &gone, NULL), 0);
    read_file = rig.env.disk.read_file;
    rig.env.disk.read_file = read_as_it_ends;
    rig_restart(&rig);
    cr_assert(rig_worker(&rig, 1)->adopted.exited);
    cr_expect_eq(rig_worker(&rig, 1)->adopted.exit.code, 6);
    cr_expect_not(rig_worker(&rig, 1)->adopted.exit.lost);
}

Test(supervisor, a_shim_lost_without_an_agent_is_settled_later)
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

Test(supervisor, a_key_is_started_once_ever)
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

Test(supervisor, a_shim_that_comes_too_late_starts_nothing)
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

Test(supervisor, what_cannot_start_says_why)
{
    struct error err;
    const char *const missing[] = {"no-such-program-here", NULL};
    const char *const fine[] = {"true", NULL};
    const char *const no_program[] = {"/etc/passwd", NULL};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 1) == 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    struct launch launches[] = {
        {.key = {"job", 1}, .argv = missing, .envp = rig_environment, .workdir = ""},
        {.key = {"job", 2}, .argv = fine, .envp = rig_environment, .workdir = "/no/such/folder"},
        {.key = {"job", 3},
         .argv = fine,
         .envp = rig_environment,
         .workdir = "",
         .master_port = ntohs(address.sin_port)},
        {.key = {"job", 4}, .argv = no_program, .envp = rig_environment, .workdir = ""},
    };
    const char *const why[] = {"no-such-program-here", "/no/such/folder", "port busy",
                               "/etc/passwd"};
    const int codes[] = {AGENT_START_NOT_FOUND, AGENT_START_NOT_FOUND, AGENT_START_AGAIN,
                         AGENT_START_NOT_EXECUTABLE};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(rig_launch(&rig, &launches[i], &err), 0, "%s", err.text);
        struct rig_worker *w = rig_worker(&rig, launches[i].key.uid);
        cr_assert(rig_until(&rig, &w->failed), "%d", i);
        cr_expect(strstr(w->why, why[i]), "%s", w->why);
        cr_expect_eq(w->code, codes[i], "%s: %d", w->why, w->code);
        cr_expect_not(w->started);
    }
    cr_expect(strstr(rig_worker(&rig, 1)->why, "no workdir"), "%s", rig_worker(&rig, 1)->why);
    close(fd);
    rig_restart(&rig);
    cr_expect(rig_worker(&rig, 1)->adopted.exited);
    cr_expect_eq(rig_worker(&rig, 1)->adopted.exit.code, AGENT_START_NOT_FOUND);
    cr_expect_eq(rig_worker(&rig, 3)->adopted.exit.code, AGENT_START_AGAIN);
}

/* Takes an address and port for it that nobody uses: of those that the system gives to clients,
 * other tests' connections hold any at other addresses. */
static struct sockaddr_in listen_below_clients(int listener)
{
    enum { FIRST = 20000, COUNT = 5000 };
    struct sockaddr_in address = {.sin_family = AF_INET};
    cr_assert_eq(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    for (int i = 0; i < COUNT; i++) {
        int everywhere = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_port = htons((uint16_t)(FIRST + (getpid() + i) % COUNT));
        address.sin_addr.s_addr = htonl(INADDR_ANY);
        bool is_free = bind(everywhere, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(everywhere);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (is_free && bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0)
            break;
    }
    cr_assert_eq(listen(listener, 1), 0);
    return address;
}

/* What an earlier rank 0 left behind for a minute does not keep the next from listening there. */
Test(supervisor, a_port_whose_connections_are_over_is_free)
{
    const char *const argv[] = {"true", NULL};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = listen_below_clients(listener);
    socklen_t size = sizeof(address);
    cr_assert_eq(connect(client, (struct sockaddr *)&address, size), 0);
    close(accept(listener, NULL, NULL)); /* who closes first keeps the port */
    close(listener);
    close(client);
    struct launch launch = {.key = {"job", 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .master_port = ntohs(address.sin_port)};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    for (int i = 0; i < RIG_PATIENCE_MS && !w->ended && !w->failed; i += 2)
        rig_turn(&rig, 2);
    cr_expect(w->ended && w->exit.code == 0, "%s", w->why);
}

Test(supervisor, output_goes_on_where_it_was_acknowledged)
{
    struct output_batch batch;
    struct rig_worker *w = rig_sh(&rig, 1, "for i in 0 1 2 3 4 5 6 7 8 9; do echo line $i; done");
    cr_assert(rig_until(&rig, &w->ended));
    struct worker_key key = w->key;
    rig.launcher.read_output(rig.launcher.self, &key, 1, &batch, NULL);
    cr_expect_eq(batch.count, 1, "at least one, however long");
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, 2); /* of another batch */
    rig.launcher.read_output(rig.launcher.self, &key, 20, &batch, NULL);
    cr_expect_eq(batch.first, 0);
    cr_expect_eq(batch.count, 3);
    cr_expect_eq(batch.rank, 3);
    cr_expect_not(batch.complete);
    uint64_t next = batch.first + (uint64_t)batch.count;
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, next);
    rig_restart(&rig);
    rig.launcher.read_output(rig.launcher.self, &key, 1 << 20, &batch, NULL);
    cr_expect_eq(batch.first, 3);
    cr_expect_eq(batch.count, 7);
    cr_expect_str_eq(batch.lines[0].text, "line 3");
    cr_expect(batch.complete);
    next = batch.first + (uint64_t)batch.count;
    output_batch_fini(&batch);
    rig.launcher.acknowledge(rig.launcher.self, &key, next);
    rig.launcher.read_output(rig.launcher.self, &key, 1 << 20, &batch, NULL);
    cr_expect_eq(batch.count, 0);
    cr_expect(batch.complete);
    output_batch_fini(&batch);
}

Test(supervisor, output_is_complete_only_at_its_end)
{
    struct output_batch batch;
    uint64_t next = 0;
    bool complete = false;
    /* Long lines: what one read returns ends with the bytes read, not with their text. */
    struct rig_worker *w = rig_sh(&rig, 1, "seq -f \"%.0f-$(printf %0150d 0)\" 9000");
    cr_assert(rig_until(&rig, &w->ended));
    for (int i = 0; i < 100 && !complete; i++) {
        cr_assert_eq(rig.launcher.read_output(rig.launcher.self, &w->key, 256 << 10, &batch, NULL),
                     0);
        cr_expect_eq(batch.first, next);
        next += (uint64_t)batch.count;
        complete = batch.complete;
        output_batch_fini(&batch);
        rig.launcher.acknowledge(rig.launcher.self, &w->key, next);
    }
    cr_expect(complete);
    cr_expect_eq(next, 9000);
}

Test(supervisor, a_flood_neither_stalls_the_worker_nor_fills_the_disk)
{
    struct rig_worker *w = rig_sh(&rig, 1, "head -c 100000000 /dev/zero | tr '\\0' '\\n'; exit 7");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 7, "%s: %s", w->exit.text, w->exit.last_output);
    char command[160];
    snprintf(command, sizeof(command), "test $(du -sk %s | cut -f1) -lt 80000", rig.dir);
    cr_expect_eq(system(command), 0);
}

static bool no_inotify;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
    errno = EMFILE;
    return no_inotify ? -1 : __real_inotify_init1(flags);
}

Test(supervisor, without_inotify_a_timer_looks)
{
    no_inotify = true;
    rig_restart(&rig);
    struct rig_worker *w =
        rig_sh(&rig, 1, "sleep 0.3; echo hello; while [ ! -e go ]; do sleep 0.05; done; exit 2");
    for (int i = 0; i < RIG_PATIENCE_MS && !w->outputs; i += 10)
        rig_turn(&rig, 10);
    cr_expect(w->started && w->outputs == 1);
    char path[128];
    snprintf(path, sizeof(path), "%s/work/job.1/go", rig.dir);
    fclose(fopen(path, "w"));
    cr_expect(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.code, 2);
}

/* Its shim stands still: what it does not do is done to it. */
Test(supervisor, a_shim_that_does_not_kill_is_killed)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo ready=1; sleep 1000");
    number_of(1, "ready=");
    kill(shim_of(1), SIGSTOP);
    for (int i = 0; i < 4; i++)
        rig.launcher.kill(rig.launcher.self, &w->key);
    rig_turn(&rig, 100);
    cr_expect_not(w->ended);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.lost);
}

Test(supervisor, what_no_agent_can_read_is_told_as_lost_and_can_be_forgotten)
{
    struct rundir dir = dir_of(5);
    cr_assert_eq(mkdir(dir.path, 0711), 0);
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 5);
    cr_assert(w->found);
    cr_expect(w->adopted.exited && w->adopted.exit.lost);
    rig.launcher.forget(rig.launcher.self, &w->key);
    cr_expect_neq(access(dir.path, F_OK), 0);
}

Test(supervisor, what_another_agent_started_is_not_ours_to_forget)
{
    const char *const argv[] = {"true", NULL};
    struct run_launch run = {
        .work = work_of(1),
        .launch = {
            .key = {.job = "job", .uid = 1}, .argv = argv, .envp = rig_environment, .workdir = ""}};
    struct rundir dir = dir_of(1);
    struct error err;
    cr_assert_eq(rundir_create(&dir, &run, NULL), 0);
    cr_expect_eq(rig_launch(&rig, &run.launch, &err), E_ALREADY_EXISTS);
    rig.launcher.forget(rig.launcher.self, &run.launch.key);
    cr_expect_eq(access(dir.path, F_OK), 0);
}

Test(supervisor, a_cgroup_left_behind_is_taken_over)
{
    struct cgroup left, own;
    struct cgroup_limits limits = {.processes = 10};
    cgroup_create(&rig.home, "test-left", &limits, &left);
    cgroup_create(&rig.home, "test-left", &limits, &own);
    cr_expect_str_eq(own.pids, left.pids);
    if (left.kind == CGROUP_NONE)
        fprintf(stderr, "SKIPPED: %s\n", left.why);
    cr_expect_eq(own.kind, left.kind, "%s", own.why);
    cgroup_remove(&own);
    cr_expect_neq(access(left.path, F_OK), 0);
    cr_expect(!left.pids[0] || access(left.pids, F_OK) != 0);
}

/* Review M13: a fork bomb took the machine with it. */
Test(supervisor, a_worker_has_as_many_processes_as_it_may)
{
    if (!rig.home.pids[0]) {
        fprintf(stderr, "SKIPPED: no pids controller\n");
        return;
    }
    struct error err;
    const char *const argv[] = {
        "sh", "-c", "for i in $(seq 40); do sleep 100 & done; echo all of them=1; wait", NULL};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .workdir = "",
                            .processes = 20};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &w->ended));
    char *output = rig_output(&rig, 1);
    cr_expect(strstr(output, "Cannot fork") && !strstr(output, "all of them"), "%s", output);
    free(output);
    launch.key.uid = 2;
    launch.processes = 60;
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
    cr_expect(rig_output_has(&rig, 2, "all of them=1"));
}

Test(supervisor, many_workers_leave_no_descriptor)
{
    rig_sh(&rig, 1, "true");
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->ended));
    int before = open_files();
    for (uint64_t uid = 2; uid < 6; uid++)
        rig_sh(&rig, uid, "echo x");
    for (uint64_t uid = 2; uid < 6; uid++)
        cr_assert(rig_until(&rig, &rig_worker(&rig, uid)->ended));
    cr_expect_eq(open_files(), before);
}
