#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/env/proc_activity.h"
#include "common/env/proc_spawn.h"
#include "tests/lib/tmpdir.h"

static struct error err;
static const char *const path_only[] = {"PATH=/usr/bin:/bin", NULL};

TestSuite(proc);

static struct proc start(struct proc_spawn how)
{
    struct proc proc;
    if (!how.envp)
        how.envp = path_only;
    cr_assert_eq(proc_spawn(&how, &proc, &err), 0, "%s", err.text);
    return proc;
}

static struct proc shell(const char *script, struct proc_spawn how)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    how.path = "/bin/sh";
    how.argv = argv;
    return start(how);
}

static struct proc_exit finish(struct proc *proc)
{
    struct proc_exit end;
    cr_assert_eq(proc_wait(proc, true, &end, &err), 0, "%s", err.text);
    proc_close(proc);
    return end;
}

/* What a script writes to its standard output. */
static void output_of(const char *script, struct proc_spawn how, char *ret, size_t size)
{
    int fds[2];
    size_t used = 0;
    ssize_t n;
    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    struct proc_fd out[] = {{fds[1], 1}};
    how.fds = out;
    how.fd_count = 1;
    struct proc proc = shell(script, how);
    close(fds[1]);
    while ((n = read(fds[0], ret + used, size - 1 - used)) > 0)
        used += (size_t)n;
    ret[used] = '\0';
    close(fds[0]);
    finish(&proc);
}

Test(proc, exit_codes_and_signals_are_told_apart)
{
    struct proc proc = shell("exit 7", (struct proc_spawn){0});
    struct proc_exit end = finish(&proc);
    cr_assert_eq(end.code, 7);
    cr_assert_eq(end.signal, 0);
    proc = shell("kill -TERM $$", (struct proc_spawn){0});
    end = finish(&proc);
    cr_assert_eq(end.code, -1);
    cr_assert_eq(end.signal, SIGTERM);
}

Test(proc, a_child_gets_only_the_descriptors_named)
{
    char text[256];
    int stray = open("/dev/zero", O_RDONLY); /* without O_CLOEXEC, on purpose */
    cr_assert_geq(stray, 0);
    output_of("for f in /proc/self/fd/*; do test -e $f && echo ${f##*/}; done",
              (struct proc_spawn){0}, text, sizeof(text));
    cr_assert_str_eq(text, "0\n1\n2\n");
    output_of("readlink /proc/self/fd/0", (struct proc_spawn){0}, text, sizeof(text));
    cr_assert_str_eq(text, "/dev/null\n");
    close(stray);
}

Test(proc, descriptors_can_swap_their_numbers)
{
    int a[2], b[2];
    char byte;
    cr_assert_eq(pipe2(a, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(b, O_CLOEXEC), 0);
    struct proc_fd fds[] = {{a[1], b[1]}, {b[1], a[1]}};
    char script[80];
    snprintf(script, sizeof(script), "printf A >/dev/fd/%d; printf B >/dev/fd/%d", a[1], b[1]);
    struct proc proc = shell(script, (struct proc_spawn){.fds = fds, .fd_count = 2});
    finish(&proc);
    cr_assert_eq(read(b[0], &byte, 1), 1);
    cr_assert_eq(byte, 'A');
    cr_assert_eq(read(a[0], &byte, 1), 1);
    cr_assert_eq(byte, 'B');
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

Test(proc, no_source_is_overwritten_by_a_target_that_was_free_here)
{
    int a[2], b[2];
    char byte;
    cr_assert_eq(pipe2(a, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(b, O_CLOEXEC), 0);
    for (int offset = 1; offset < 10; offset++) {
        struct proc_fd fds[] = {{a[1], b[1] + offset}, {b[1], b[1] + offset + 1}};
        char script[80];
        snprintf(script, sizeof(script), "printf A >/dev/fd/%d; printf B >/dev/fd/%d", fds[0].to,
                 fds[1].to);
        struct proc proc = shell(script, (struct proc_spawn){.fds = fds, .fd_count = 2});
        cr_assert_eq(finish(&proc).code, 0);
        cr_assert_eq(read(a[0], &byte, 1), 1);
        cr_assert_eq(byte, 'A');
        cr_assert_eq(read(b[0], &byte, 1), 1);
        cr_assert_eq(byte, 'B');
    }
}

Test(proc, environment_and_directory_are_those_given)
{
    char text[512];
    struct tmpdir dir = tmpdir_make();
    static const char *const envp[] = {"A=1", "B=two words", NULL};
    output_of("pwd; echo $A-$B-${HOME-none}", (struct proc_spawn){.cwd = dir.path, .envp = envp},
              text, sizeof(text));
    cr_assert(strncmp(text, dir.path, strlen(dir.path)) == 0, "%s", text);
    cr_assert_not_null(strstr(text, "\n1-two words-none\n"));
    tmpdir_remove(&dir);
}

Test(proc, failures_before_exec_are_reported_and_leave_no_child)
{
    struct proc proc = {0};
    const char *const argv[] = {"x", NULL};
    struct proc_spawn how = {.path = "/no/such/program", .argv = argv, .envp = path_only};
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    cr_assert_str_eq(err.text, "/no/such/program: cannot execute: No such file or directory");
    how.path = "./gan";
    how.cwd = "/";
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    cr_assert_str_eq(err.text, "./gan: cannot execute in /: No such file or directory");
    how.cwd = NULL;
    how.path = "no-such-program-anywhere";
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    how.path = "";
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    how.path = "/bin/sh";
    how.cwd = "/no/such/dir";
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_NOT_FOUND);
    cr_assert_str_eq(err.text,
                     "cannot start in /no/such/dir on this machine: No such file or directory");
    how.cwd = NULL;
    how.path = "/etc/passwd";
    cr_assert_eq(proc_spawn(&how, &proc, &err), E_PERMISSION_DENIED);
    how.path = "/bin/sh";
    struct proc_fd bad = {9999, 5};
    how.fds = &bad;
    how.fd_count = 1;
    cr_assert_neq(proc_spawn(&how, &proc, &err), 0);
    cr_assert_eq(proc.pid, 0, "untouched on failure");
    pid_t *pids;
    size_t count;
    cr_assert_eq(proc_descendants(getpid(), &pids, &count, &err), 0);
    cr_assert_eq(count, 0);
    free(pids);
}

Test(proc, programs_without_a_slash_are_searched_in_the_given_path)
{
    const char *const argv[] = {"true", NULL};
    const char *const envp[] = {"PATH=relative::/bin", NULL};
    struct proc proc = start((struct proc_spawn){.path = "true", .argv = argv, .envp = envp});
    cr_assert_eq(finish(&proc).code, 0);
}

static void ignore(int signal)
{
    (void)signal;
}

Test(proc, signal_mask_and_handlers_are_the_defaults_again)
{
    char text[256];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, ignore);
    signal(SIGPIPE, SIG_IGN);
    output_of("grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status | sort -u | tr -d '\\t\\n'",
              (struct proc_spawn){0}, text, sizeof(text));
    cr_assert_not_null(strstr(text, "SigBlk:0000000000000000"), "%s", text);
    cr_assert_not_null(strstr(text, "SigIgn:0000000000000000"), "%s", text);
}

Test(proc, a_session_of_its_own_and_no_new_privileges)
{
    char text[256];
    output_of("test $(cut -d' ' -f6 /proc/$$/stat) -eq $$ && echo leader; "
              "grep NoNewPrivs /proc/self/status",
              (struct proc_spawn){.new_session = true, .no_new_privileges = true}, text,
              sizeof(text));
    cr_assert(strncmp(text, "leader\n", 7) == 0, "%s", text);
    cr_assert_not_null(strstr(text, "NoNewPrivs:\t1"), "%s", text);
    struct proc proc = shell("sleep 30 & sleep 30", (struct proc_spawn){.new_session = true});
    cr_assert_eq(getpgid(proc.pid), proc.pid);
    cr_assert_eq(proc_signal_group(&proc, SIGKILL, &err), 0);
    cr_assert_eq(finish(&proc).signal, SIGKILL);
}

Test(proc, signals_reach_it_until_it_is_gone)
{
    struct proc_exit end;
    struct proc proc = shell("exec sleep 30", (struct proc_spawn){0});
    cr_assert(proc_alive(proc.pid, proc.start_ticks));
    cr_assert_eq(proc_wait(&proc, false, &end, &err), E_UNAVAILABLE);
    cr_assert_eq(proc_signal(&proc, SIGKILL, &err), 0);
    cr_assert_eq(proc_wait(&proc, true, &end, &err), 0);
    cr_assert_eq(end.signal, SIGKILL);
    cr_assert_eq(proc_signal(&proc, SIGKILL, &err), E_NOT_FOUND);
    cr_assert_eq(proc_signal_group(&proc, SIGKILL, &err), E_NOT_FOUND);
    cr_assert_eq(proc_wait(&proc, true, &end, &err), E_NOT_FOUND);
    cr_assert_not(proc_alive(proc.pid, proc.start_ticks));
    proc_close(&proc);
    proc_close(&proc);
}

Test(proc, a_process_is_known_by_number_and_start_time)
{
    struct proc proc = shell("exec sleep 30", (struct proc_spawn){0}), again;
    struct proc_exit end;
    cr_assert_eq(proc_open(proc.pid, proc.start_ticks, &again, &err), 0);
    cr_assert_eq(again.start_ticks, proc.start_ticks);
    proc_close(&again);
    cr_assert_eq(proc_open(proc.pid, 0, &again, &err), 0);
    cr_assert_eq(again.start_ticks, proc.start_ticks);
    proc_close(&again);
    cr_assert_eq(proc_open(proc.pid, proc.start_ticks + 1, &again, &err), E_NOT_FOUND);
    cr_assert_not(proc_alive(proc.pid, proc.start_ticks + 1));
    proc_signal(&proc, SIGKILL, &err);
    while (proc_alive(proc.pid, proc.start_ticks))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_assert_eq(proc_open(proc.pid, proc.start_ticks, &again, &err), E_NOT_FOUND, "a zombie");
    cr_assert_eq(proc_wait(&proc, true, &end, &err), 0);
    cr_assert_eq(proc_open(proc.pid, proc.start_ticks, &again, &err), E_NOT_FOUND);
    proc_close(&proc);
}

Test(proc, names_with_parentheses_do_not_confuse_the_start_time)
{
    struct tmpdir dir = tmpdir_make();
    const char *odd = tmpdir_path(&dir, "x) Z 1 (y");
    cr_assert_eq(symlink("/bin/sleep", odd), 0);
    const char *const argv[] = {"odd", "30", NULL};
    struct proc proc = start((struct proc_spawn){.path = odd, .argv = argv});
    uint64_t ours;
    cr_assert(proc_alive(proc.pid, proc.start_ticks));
    cr_assert_eq(proc_start_ticks(getpid(), &ours, &err), 0);
    cr_assert_geq(proc.start_ticks, ours);
    proc_signal(&proc, SIGKILL, &err);
    finish(&proc);
    tmpdir_remove(&dir);
}

Test(proc, descendants_come_after_their_parents)
{
    struct proc proc =
        shell("sh -c 'sleep 30 & wait' & wait", (struct proc_spawn){.new_session = true});
    pid_t *pids = NULL;
    size_t count = 0;
    while (count < 2) {
        free(pids);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        cr_assert_eq(proc_descendants(proc.pid, &pids, &count, &err), 0);
    }
    cr_assert_eq(count, 2);
    pid_t *inner;
    size_t inner_count;
    cr_assert_eq(proc_descendants(pids[0], &inner, &inner_count, &err), 0);
    cr_assert_eq(inner_count, 1);
    cr_assert_eq(inner[0], pids[1]);
    free(pids);
    free(inner);
    cr_assert_eq(proc_signal_group(&proc, SIGKILL, &err), 0);
    finish(&proc);
}

Test(proc, a_child_can_die_with_its_parent)
{
    char text[64];
    output_of("grep -q . /proc/self/status && echo ok",
              (struct proc_spawn){.parent_death_signal = SIGKILL}, text, sizeof(text));
    cr_assert_str_eq(text, "ok\n");
}

Test(proc, another_user_with_the_groups_given)
{
    char text[128];
    const gid_t groups[] = {34567, 45678};
    if (getuid() != 0)
        cr_skip_test("changing the user needs root");
    struct proc_spawn how = {.change_user = true, .uid = 12345, .gid = 23456};
    output_of("id -u; id -g; id -G", how, text, sizeof(text));
    cr_assert_str_eq(text, "12345\n23456\n23456\n");
    how.groups = groups;
    how.group_count = 2;
    output_of("id -G", how, text, sizeof(text));
    cr_assert_str_eq(text, "23456 34567 45678\n");
}

/* A name with a line end does not look like another line. */
Test(proc, what_a_process_does)
{
    struct proc_activity is = {.state = 'R'};
    struct proc proc =
        shell("printf 'a\\nState:\\tS' >/proc/$$/comm; kill -STOP $$", (struct proc_spawn){0});
    while (is.state != 'T')
        cr_assert_eq(proc_activity_read(proc.pid, &is), 0);
    cr_expect_str_eq(is.name, "a\\nState:\tS");
    cr_expect_eq(is.threads, 1);
    cr_expect_str_eq(proc_state_text(is.state), "stopped");
    cr_assert_eq(proc_signal(&proc, SIGKILL, &err), 0);
    finish(&proc);
    cr_expect_eq(proc_activity_read(proc.pid, &is), E_NOT_FOUND);
}
