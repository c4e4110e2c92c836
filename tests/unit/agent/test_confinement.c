/* What a worker finds and may use: its files, cores, memory, processes, with real processes. */
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

TestSuite(confinement, .init = begin, .fini = finish);

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
Test(confinement, a_worker_is_pinned_to_its_cores)
{
    char cores[16], expected[128], line[128];
    cpu_set_t allowed, of_shim;
    cr_assert_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &allowed))
        last--;
    snprintf(cores, sizeof(cores), "%d", last);
    snprintf(expected, sizeof(expected), "o Cpus_allowed_list:\t%d\n", last);
    launch_on(1, cores);
    cr_expect(rig_output_has(&rig, 1, expected));
    cr_assert_eq(sched_getaffinity(rig_shim(&rig, 1), sizeof(of_shim), &of_shim), 0);
    cr_expect(CPU_EQUAL(&of_shim, &allowed));

    FILE *status = fopen("/proc/self/status", "r");
    do
        cr_assert_not_null(fgets(line, sizeof(line), status));
    while (strncmp(line, "Cpus_allowed_list", 17) != 0);
    fclose(status);
    snprintf(cores, sizeof(cores), "0-%d", last);
    snprintf(expected, sizeof(expected), "o %.100s", line);
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
Test(confinement, a_worker_ends_before_its_agent_when_memory_is_short)
{
    (void)score_of_self(-500); /* as the unit does; not everybody may */
    struct rig_worker *w = rig_sh(&rig, 1, "cat /proc/self/oom_score_adj");
    cr_assert(rig_until(&rig, &w->ended));
    rig_expect_output(&rig, 1, "o 500\n");
    cr_assert(score_of_self(700));
    w = rig_sh(&rig, 2, "cat /proc/self/oom_score_adj");
    cr_assert(rig_until(&rig, &w->ended));
    rig_expect_output(&rig, 2, "o 700\n");
}

Test(confinement, files_of_a_worker_are_its_agents_alone)
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

Test(confinement, death_by_memory_is_told_from_other_deaths)
{
    struct cgroup probe;
    struct cgroup_limits limits = {.memory_bytes = 64 << 20};
    cgroup_create(&rig.home, "test-probe", &limits, &probe);
    cgroup_remove(&probe);
    if (probe.kind == CGROUP_NONE || probe.why[0])
        cr_skip_test("%s", probe.why);
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
    rig_number(&rig, 3, "over=");
    kill(rig_shim(&rig, 3), SIGKILL);
    w = rig_worker(&rig, 3);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.lost && w->exit.oom, "also when its shim cannot say so");
}

Test(confinement, the_worker_inherits_nothing)
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
    rig_expect_output(&rig, 1, "o 0\no 1\no 2\no 3\n"); /* 3 is the folder that ls reads */
    struct rig_worker *w =
        rig_sh(&rig, 2,
               "readlink /proc/$$/fd/0; grep NoNewPrivs /proc/self/status | tr '\t' ' ';"
               "grep SigIgn /proc/$$/status | tr '\t' ' ';"
               "ps -o sid= -p $$ | tr -d ' ' > sid; test $(cat sid) = $$ && echo own session;"
               "ulimit -c; env | grep -v ^PWD | sort | tr '\n' ' '; echo");
    cr_assert(rig_until(&rig, &w->ended));
    rig_expect_output(&rig, 2,
                      "o /dev/null\no NoNewPrivs: 1\no SigIgn: 0000000000000000\n"
                      "o own session\no 0\no PATH=/usr/local/bin:/usr/bin:/bin \n");
}

Test(confinement, a_cgroup_left_behind_is_taken_over)
{
    struct cgroup left, own;
    struct cgroup_limits limits = {.processes = 10};
    cgroup_create(&rig.home, "test-left", &limits, &left);
    cgroup_create(&rig.home, "test-left", &limits, &own);
    cr_expect_str_eq(own.pids, left.pids);
    cr_expect_eq(own.kind, left.kind, "%s", own.why);
    cgroup_remove(&own);
    if (left.kind == CGROUP_NONE)
        cr_skip_test("%s", left.why);
    cr_expect_neq(access(left.path, F_OK), 0);
    cr_expect(!left.pids[0] || access(left.pids, F_OK) != 0);
}

/* Review M13: a fork bomb took the machine with it. */
Test(confinement, a_worker_has_as_many_processes_as_it_may)
{
    if (!rig.home.pids[0])
        cr_skip_test("no pids controller");
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
