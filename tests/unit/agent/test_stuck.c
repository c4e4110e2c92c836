/* Processes that SIGKILL does not end: those of a frozen cgroup of version 1 (Linux,
 * Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst) stand for a driver that hangs. */
#include <criterion/criterion.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/rundir.h"
#include "common/base/str.h"
#include "common/env/proc.h"
#include "tests/unit/agent/supervisor_rig.h"

static struct rig rig;
static char freezer[128]; /* a group of our own; "" = there is no freezer here */
static bool mounted;

static bool freezer_write(const char *file, const char *text)
{
    char path[192];
    (void)str_printf(path, sizeof(path), "%s/%s", freezer, file);
    FILE *out = fopen(path, "we");
    bool done = out && fputs(text, out) >= 0;
    return (!out || fclose(out) == 0) && done;
}

static void begin(void)
{
    char root[96] = "/sys/fs/cgroup/freezer";
    rig_init(&rig);
    if (access("/sys/fs/cgroup/freezer/tasks", F_OK)) {
        (void)str_printf(root, sizeof(root), "%s/freezer", rig.dir);
        (void)mkdir(root, 0700);
        mounted = mount("muster-test", root, "cgroup", 0, "freezer") == 0;
        if (!mounted)
            cr_skip_test("no freezer of cgroup version 1: %s", strerror(errno));
    }
    (void)str_printf(freezer, sizeof(freezer), "%s/muster-test.%d", root, (int)getpid());
    if (mkdir(freezer, 0700))
        cr_skip_test("no freezer of cgroup version 1: %s", strerror(errno));
}

static void finish(void)
{
    if (freezer[0])
        freezer_write("freezer.state", "THAWED");
    rig_fini(&rig);
    for (int i = 0; freezer[0] && rmdir(freezer) && i < 1000; i++)
        usleep(10000);
    if (mounted) {
        *strrchr(freezer, '/') = '\0';
        cr_expect_eq(umount(freezer), 0);
        rig.env.disk.remove_tree(rig.env.disk.self, rig.dir, NULL);
    }
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a zombie is left");
}

TestSuite(stuck, .init = begin, .fini = finish);

static void freeze(int64_t pid)
{
    char text[24];
    (void)str_printf(text, sizeof(text), "%d", (int)pid);
    cr_assert(freezer_write("cgroup.procs", text));
    cr_assert(freezer_write("freezer.state", "FROZEN"));
}

static void thaw(void)
{
    cr_assert(freezer_write("freezer.state", "THAWED"));
}

/* The number in a line "name=123" of its output. */
static int64_t number_of(uint64_t uid, const char *name)
{
    cr_assert(rig_output_has(&rig, uid, name), "no %s", name);
    char *output = rig_output(&rig, uid);
    int64_t number = atoll(strstr(output, name) + strlen(name));
    free(output);
    return number;
}

static pid_t shim_of(uint64_t uid)
{
    struct rundir dir;
    struct run_process shim;
    char path[128];
    (void)str_printf(path, sizeof(path), "%s/runs/job.%d", rig.dir, (int)uid);
    cr_assert_eq(rundir_init(&dir, &rig.env.disk, path, NULL), 0);
    cr_assert_eq(rundir_read_shim(&dir, &shim, NULL), 0);
    return (pid_t)shim.pid;
}

static void kill_worker(struct rig_worker *w)
{
    rig.launcher.kill(rig.launcher.self, &w->key);
}

Test(stuck, a_worker_that_cannot_be_killed_has_not_ended)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo pid=$$; exec sleep 1000");
    freeze(number_of(1, "pid="));
    kill_worker(w);
    cr_assert(rig_until(&rig, &w->is_stuck));
    cr_expect_not(w->ended);
    cr_expect_not(w->stuck.ended);
    cr_expect_eq(w->stuck.count, 1);
    cr_expect_eq(w->stuck.pids[0], w->pid);
    for (int i = 0; i < 8; i++) /* no demand makes the agent give its shim up */
        kill_worker(w);
    rig_turn(&rig, 200);
    cr_expect_not(w->ended);
    cr_expect(proc_alive(shim_of(1), 0));
    thaw();
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGKILL);
    cr_expect_not(w->exit.lost);
}

Test(stuck, what_a_worker_left_behind_keeps_it_from_ending)
{
    struct rig_worker *w = rig_sh(&rig, 1, "setsid sleep 1000 & echo left=$!; exec sleep 1000");
    (void)w;
    int64_t left = number_of(1, "left=");
    freeze(left);
    cr_assert(rig_until(&rig, &w->started));
    kill((pid_t)w->pid, SIGTERM);
    cr_assert(rig_until(&rig, &w->is_stuck));
    cr_expect(w->stuck.ended);
    cr_expect_eq(w->stuck.exit.signal, SIGTERM);
    cr_expect_eq(w->stuck.pids[0], left);
    cr_expect_not(w->ended);
    thaw();
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(w->exit.signal, SIGTERM);
}

Test(stuck, an_agent_that_starts_later_hears_of_it_too)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo pid=$$; exec sleep 1000");
    int64_t pid = number_of(1, "pid=");
    freeze(pid);
    kill_worker(w);
    cr_assert(rig_until(&rig, &w->is_stuck));
    rig_restart(&rig);
    w = rig_worker(&rig, 1);
    cr_expect(w->found && !w->adopted.exited);
    cr_assert(rig_until(&rig, &w->is_stuck));
    cr_expect_eq(w->stuck.pids[0], pid);
    thaw();
    cr_assert(rig_until(&rig, &w->ended));
}

Test(stuck, a_worker_whose_shim_was_killed_has_not_ended_while_it_lives)
{
    struct rig_worker *w = rig_sh(&rig, 1, "echo pid=$$; exec sleep 1000");
    int64_t pid = number_of(1, "pid=");
    freeze(pid);
    kill(shim_of(1), SIGKILL);
    cr_assert(rig_until(&rig, &w->is_stuck));
    cr_expect_not(w->ended);
    cr_expect_eq(w->stuck.pids[0], pid);
    rig_restart(&rig);
    w = rig_worker(&rig, 1);
    cr_expect(w->found && !w->adopted.exited);
    thaw();
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect(w->exit.lost);
}
