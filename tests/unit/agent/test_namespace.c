#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/namespace.h"
#include "common/env/proc_spawn.h"
#include "tests/lib/tmpdir.h"

static const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};

/* Exit code of a shell in these namespaces. */
static int shell(const char *script, struct namespace_entry *entry)
{
    struct error err;
    struct proc proc;
    struct proc_exit end;
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct proc_spawn how = {.path = argv[0],
                             .argv = argv,
                             .envp = envp,
                             .confine = entry ? namespace_enter : NULL,
                             .confine_arg = entry};
    cr_assert_eq(proc_spawn(&how, &proc, &err), 0, "%s", err.text);
    cr_assert_eq(proc_wait(&proc, true, &end, &err), 0);
    proc_close(&proc);
    return end.code;
}

static struct namespaces all_of(void)
{
    struct namespaces have;
    namespaces_find("/var/lib/muster", &have);
    if (!have.mounts || !have.ipc || !have.tmp || !have.shm || !have.proc)
        cr_skip_test("not all namespaces are to be had: %s", have.why);
    return have;
}

Test(namespaces, what_cannot_be_had_is_named)
{
    struct namespaces have = all_of();
    cr_expect_str_eq(have.why, "");
    namespaces_find("/tmp/data", &have);
    cr_expect(!have.tmp && have.shm);
    cr_expect_str_eq(have.why, "not private: /tmp (--data lies in it)");
    namespaces_find("/dev/shm", &have);
    cr_expect(have.tmp && !have.shm);
    namespaces_find("/tmpfiles/data", &have);
    cr_expect(have.tmp && have.shm);
    pid_t pid = fork();
    if (pid == 0) {
        struct namespaces none;
        if (setresuid(65534, 65534, 65534))
            _exit(2);
        namespaces_find("/var/lib/muster", &none);
        _exit(!none.mounts && !none.ipc && strstr(none.why, "Operation not permitted") ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
}

Test(namespaces, folders_of_a_jobs_own_hide_the_machines)
{
    struct namespaces none = {0}, both = {.mounts = true, .tmp = true, .shm = true};
    static const char *const seen[] = {"/tmp", "/tmpfiles/x", "/var/tmp/x", "/dev/shm", "tmp", ""};
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
        cr_expect_null(namespaces_hide(&both, seen[i]), "%s", seen[i]);
    cr_expect_str_eq(namespaces_hide(&both, "/tmp/ckpt"), "/tmp");
    cr_expect_str_eq(namespaces_hide(&both, "/dev/shm/x/y"), "/dev/shm");
    cr_expect_null(namespaces_hide(&none, "/tmp/ckpt"));
}

Test(namespaces, the_first_makes_what_the_next_joins)
{
    struct namespaces have = all_of();
    struct tmpdir dir = tmpdir_make();
    struct namespace_entry entry = {.have = &have, .tmp = dir.path, .mounts_fd = -1, .ipc_fd = -1};
    const char *const argv[] = {"/bin/sh", "-c", "echo >/dev/shm/here; echo >/tmp/there; sleep 60",
                                NULL};
    struct error err;
    struct proc first;
    struct proc_spawn how = {.path = argv[0],
                             .argv = argv,
                             .envp = envp,
                             .confine = namespace_enter,
                             .confine_arg = &entry};
    cr_assert_eq(proc_spawn(&how, &first, &err), 0, "%s", err.text);
    while (access(tmpdir_path(&dir, "there"), F_OK))
        usleep(1000);
    cr_expect_neq(shell("test -e /dev/shm/here", NULL), 0, "the machine does not see it");
    cr_expect_neq(shell("test -e /dev/shm/here", &entry), 0, "nor does another job");
    namespace_open(first.pid, &entry);
    cr_expect(entry.mounts_fd >= 0 && entry.ipc_fd >= 0);
    cr_expect_eq(shell("test -e /dev/shm/here && test -e /tmp/there", &entry), 0);
    namespace_close(&entry);
    cr_expect_eq(proc_signal(&first, SIGKILL, &err), 0);
    struct proc_exit end;
    cr_assert_eq(proc_wait(&first, true, &end, &err), 0);
    proc_close(&first);
    tmpdir_remove(&dir);
}

Test(namespaces, a_problem_is_told_and_leaves_no_child)
{
    struct namespaces have = all_of();
    struct namespace_entry entry = {
        .have = &have, .tmp = "/no/such/folder", .mounts_fd = -1, .ipc_fd = -1};
    const char *const argv[] = {"true", NULL};
    struct error err;
    struct proc proc;
    struct proc_spawn how = {.path = "true",
                             .argv = argv,
                             .envp = envp,
                             .confine = namespace_enter,
                             .confine_arg = &entry};
    cr_expect_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    cr_expect(strstr(err.text, "cannot enter its namespaces"), "%s", err.text);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}
