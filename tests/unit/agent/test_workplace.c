/* What workers have of their own on disk, and whom they run as, with real processes. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/supervisor/rundir.h"
#include "common/env/proc.h"
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

TestSuite(workplace, .init = begin, .fini = finish);

static void expect_output(uint64_t uid, const char *expected)
{
    char *output = rig_output(&rig, uid);
    cr_expect_str_eq(output, expected, "%s", output);
    free(output);
}

static const char *work_of(uint64_t uid)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/work/job.%d", rig.dir, (int)uid);
    return path;
}

Test(workplace, forgetting_leaves_nothing)
{
    char path[128];
    struct rig_worker *w = rig_sh(&rig, 1, "mkdir -p a/b; touch a/b/c");
    snprintf(path, sizeof(path), "%s/runs/job.1", rig.dir);
    rig.launcher.forget(rig.launcher.self, &w->key);
    cr_expect_eq(access(path, F_OK), 0, "a running worker is not forgotten");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(access(work_of(1), F_OK), 0);
    rig.launcher.forget(rig.launcher.self, &w->key);
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_neq(access(work_of(1), F_OK), 0);
}

static pthread_t remover;
static bool has_removed;
static int (*remove_tree)(void *self, const char *path, struct error *err);

static int note_remover(void *self, const char *path, struct error *err)
{
    int rc = remove_tree(self, path, err);
    remover = pthread_self();
    __atomic_store_n(&has_removed, true, __ATOMIC_RELEASE);
    return rc;
}

/* A worker may leave more files than a beat's time can remove: the node would be lost. */
Test(workplace, what_a_worker_leaves_is_removed_beside_the_loop)
{
    char path[128];
    struct rig_worker *w = rig_sh(&rig, 1, "mkdir d; touch d/a d/b");
    cr_assert(rig_until(&rig, &w->ended));
    remove_tree = rig.env.disk.remove_tree;
    rig.env.disk.remove_tree = note_remover;
    rig.launcher.forget(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &has_removed));
    cr_expect_not(pthread_equal(remover, pthread_self()));
    snprintf(path, sizeof(path), "%s/tmp", rig.dir);
    char **names = NULL;
    for (int i = 0; i < RIG_PATIENCE_MS; i += 2) {
        free(names);
        cr_assert_eq(rig.env.disk.list(rig.env.disk.self, path, &names, NULL), 0);
        if (!names[0])
            break;
        rig_turn(&rig, 2);
    }
    cr_expect_null(names[0], "%s is left", names[0]);
    free(names);
}

Test(workplace, a_folder_without_a_run_is_removed_when_an_agent_starts)
{
    char path[160];
    struct rig_worker *w = rig_sh(&rig, 1, "sleep 1000");
    cr_assert(rig_until(&rig, &w->started));
    snprintf(path, sizeof(path), "%s", work_of(2));
    cr_assert_eq(mkdir(path, 0700), 0);
    rig_restart(&rig);
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_eq(access(work_of(1), F_OK), 0);
}

Test(workplace, workers_run_as_the_user_they_are_to)
{
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    rig_as_user(&rig, 65534, 65533);
    struct rig_worker *w = rig_sh(&rig, 1, "id -u; id -g; id -G; touch here && ls");
    cr_assert(rig_until(&rig, &w->ended));
    expect_output(1, "o 65534\no 65533\no 65533\no here\n");
    w = rig_sh(&rig, 2,
               "cat ../../runs/job.1/launch.json >/dev/null 2>&1 || echo secret;"
               "ls .. ../../runs/job.1 ../../runs 2>/dev/null; echo listed; sleep 1000");
    cr_assert(rig_output_has(&rig, 2, "o secret\no listed"));
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGTERM);
}

/* Review M3: root entered the workdir, and looked for the program, before the user was changed. */
Test(workplace, a_worker_starts_only_where_its_user_may_be)
{
    char closed[128], inner[160], path[200];
    struct error err;
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    rig_as_user(&rig, 65534, 65533);
    snprintf(closed, sizeof(closed), "%s/closed", rig.dir);
    snprintf(inner, sizeof(inner), "%s/inner", closed);
    snprintf(path, sizeof(path), "PATH=%s:/usr/bin:/bin", inner);
    cr_assert(mkdir(closed, 0700) == 0 && mkdir(inner, 0755) == 0);
    snprintf(path + 5, sizeof(path) - 5, "%s/here", inner);
    cr_assert_eq(symlink("/bin/true", path + 5), 0);
    snprintf(path + 5, sizeof(path) - 5, "%s", inner);
    const char *const cat[] = {"cat", "/dev/null", NULL}, *const program[] = {"here", NULL};
    const char *const envp[] = {path, NULL};
    struct launch launches[] = {
        {.key = {"job", 1}, .argv = cat, .envp = rig_environment, .workdir = inner},
        {.key = {"job", 2}, .argv = program, .envp = envp, .workdir = ""},
    };
    static const char *const why[] = {"/closed/inner on this machine: Permission denied",
                                      "here: no such program in PATH"};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(rig_launch(&rig, &launches[i], &err), 0, "%s", err.text);
        struct rig_worker *w = rig_worker(&rig, launches[i].key.uid);
        cr_assert(rig_until(&rig, &w->failed) && !w->ended, "%d", i);
        cr_expect(strstr(w->why, why[i]), "%s", w->why);
    }
}

/* The agent sees from outside what has hidden itself in namespaces. */
Test(workplace, without_its_shim_a_worker_in_namespaces_ends_with_all_it_forked)
{
    char path[128];
    struct rundir dir;
    struct run_process shim;
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    const char *const argv[] = {"/bin/sh", "-c", "setsid sleep 1000 & echo child=$!; wait", NULL};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = rig_environment,
                            .token = "tok",
                            .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &w->started) && rig_output_has(&rig, 1, "child="));
    char *output = rig_output(&rig, 1);
    pid_t child = (pid_t)atoi(strstr(output, "child=") + 6);
    free(output);
    snprintf(path, sizeof(path), "%s/runs/job.1", rig.dir);
    cr_assert_eq(rundir_init(&dir, &rig.env.disk, path, NULL), 0);
    cr_assert_eq(rundir_read_shim(&dir, &shim, NULL), 0);
    cr_expect(proc_alive(child, 0));
    kill((pid_t)shim.pid, SIGKILL);
    cr_assert(rig_until(&rig, &w->ended));
    for (int i = 0; i < RIG_PATIENCE_MS && (proc_alive(child, 0) || proc_alive((pid_t)w->pid, 0));
         i += 10)
        rig_turn(&rig, 10);
    cr_expect_not(proc_alive(child, 0) || proc_alive((pid_t)w->pid, 0));
    cr_expect(w->exit.lost);
}
