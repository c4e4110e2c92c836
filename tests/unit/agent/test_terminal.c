/* Terminals beside real workers: ptys, pipes and connections through real keepers. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/terminal.h"
#include "common/env/proc.h"
#include "tests/lib/open_files.h"
#include "tests/unit/agent/supervisor_rig.h"

static struct rig rig;

struct seen { /* of one terminal */
    struct terminal *terminal;
    struct buf text[2]; /* of its streams */
    size_t bytes;       /* all, also when `text` is not kept */
    bool counts_only, pauses;
    int rooms;
    bool room;
    bool ended;
    struct terminal_end end;
};

static void on_output(void *arg, enum terminal_stream stream, const char *bytes, size_t size)
{
    struct seen *seen = arg;
    cr_assert(!seen->ended && size > 0 && size <= TERMINAL_READ_BYTES);
    seen->bytes += size;
    if (!seen->counts_only)
        cr_assert_eq(buf_append(&seen->text[stream], bytes, size), 0);
    if (seen->pauses)
        terminal_pause(seen->terminal);
}

static void on_writable(void *arg)
{
    struct seen *seen = arg;
    seen->rooms++;
    seen->room = true;
}

static void on_ended(void *arg, const struct terminal_end *end)
{
    struct seen *seen = arg;
    cr_assert_not(seen->ended, "it ended twice");
    seen->ended = true;
    seen->end = *end;
}

static struct terminal_events events_of(struct seen *seen)
{
    return (struct terminal_events){
        .arg = seen, .output = on_output, .writable = on_writable, .ended = on_ended};
}

static int try_open(struct seen *seen, uint64_t uid, const struct terminal_wish *wish,
                    struct error *err)
{
    struct terminal_events events = events_of(seen);
    return rig.launcher.open_terminal(rig.launcher.self, &rig_worker(&rig, uid)->key, wish, &events,
                                      &seen->terminal, err);
}

static void open_wish(struct seen *seen, uint64_t uid, const struct terminal_wish *wish)
{
    struct error err = {0};
    cr_assert_eq(try_open(seen, uid, wish, &err), 0, "%s", err.text);
}

/* /bin/sh -c, with or without a pty. */
static void open_sh(struct seen *seen, uint64_t uid, bool pty, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct terminal_wish wish = {.argv = argv, .pty = pty, .type = "xterm"};
    open_wish(seen, uid, &wish);
}

static void close_seen(struct seen *seen)
{
    terminal_free(seen->terminal);
    buf_fini(&seen->text[0]);
    buf_fini(&seen->text[1]);
}

static bool wait_text(struct seen *seen, const char *text)
{
    bool has = false;
    for (int i = 0; i < RIG_PATIENCE_MS && !has; i += 2) {
        rig_turn(&rig, 2);
        has = strstr(buf_cstr(&seen->text[0]), text) != NULL;
    }
    return has;
}

static void type(struct seen *seen, const char *text)
{
    cr_assert_eq(terminal_write(seen->terminal, text, strlen(text)), strlen(text));
}

static long number_after(struct seen *seen, const char *name)
{
    cr_assert(wait_text(seen, name), "no %s in %s", name, buf_cstr(&seen->text[0]));
    rig_turn(&rig, 20); /* its digits */
    return atol(strstr(buf_cstr(&seen->text[0]), name) + strlen(name));
}

static bool wait_gone(pid_t pid)
{
    for (int i = 0; i < RIG_PATIENCE_MS && proc_alive(pid, 0); i += 10)
        rig_turn(&rig, 10);
    return !proc_alive(pid, 0);
}

/* A worker that runs. */
static struct rig_worker *worker(uint64_t uid)
{
    struct rig_worker *w = rig_sh(&rig, uid, "echo ready=1; exec sleep 1000");
    rig_number(&rig, uid, "ready=");
    cr_assert(rig_until(&rig, &w->started));
    return w;
}

static void begin(void)
{
    signal(SIGPIPE, SIG_IGN); /* as agents do */
    rig_init(&rig);
}

/* Keepers that were freed end after their launcher: no zombie and no process is left. */
static void finish(void)
{
    rig_turn(&rig, 50);
    rig_fini(&rig);
    for (int i = 0; i < RIG_PATIENCE_MS && waitpid(-1, NULL, WNOHANG) != -1; i++)
        usleep(1000);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a process is left");
}

TestSuite(terminal, .init = begin, .fini = finish);

Test(terminal, output_and_exit_code_of_a_pty_arrive)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, true, "test -t 0 && test -t 1 && test -t 2 && echo $TERM; exit 7");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_EXITED, "%s", seen.end.why);
    cr_expect_eq(seen.end.code, 7);
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "xterm\r\n");
    close_seen(&seen);
}

Test(terminal, pipes_keep_output_and_errors_apart)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, false, "cat; echo err >&2; test -t 0 || exit 3");
    type(&seen, "typed\n");
    terminal_end_input(seen.terminal);
    cr_expect_eq(terminal_write(seen.terminal, "x", 1), 0);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_EXITED && seen.end.code == 3, "%s", seen.end.why);
    cr_expect_str_eq(buf_cstr(&seen.text[TERMINAL_OUTPUT]), "typed\n");
    cr_expect_str_eq(buf_cstr(&seen.text[TERMINAL_ERRORS]), "err\n");
    close_seen(&seen);
}

Test(terminal, a_signal_is_told)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, false, "kill -SEGV $$");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_SIGNALED && seen.end.signal == SIGSEGV);
    close_seen(&seen);
}

/* Its exec happens in the keeper, as the worker's user. */
Test(terminal, a_program_that_does_not_exist_is_named)
{
    static const char *const argv[] = {"no-such-program", NULL};
    struct seen seen = {0};
    worker(1);
    open_wish(&seen, 1, &(struct terminal_wish){.argv = argv, .pty = true});
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_NOT_STARTED);
    cr_expect_eq(seen.end.code, 127);
    cr_expect_str_eq(seen.end.why, "no-such-program: no such program in PATH");
    close_seen(&seen);
}

Test(terminal, without_a_command_it_is_an_interactive_shell)
{
    struct seen seen = {0};
    worker(1);
    open_wish(&seen, 1, &(struct terminal_wish){.pty = true, .type = "dumb"});
    type(&seen, "case $- in *i*) echo inter''active;; esac\n");
    cr_expect(wait_text(&seen, "interactive"), "%s", buf_cstr(&seen.text[0]));
    type(&seen, "exit 5\n");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.code, 5);
    close_seen(&seen);
}

/* Byte 3 goes to the program in front, not to its shell. */
Test(terminal, control_c_interrupts_the_foreground_program)
{
    struct seen seen = {0};
    worker(1);
    open_wish(&seen, 1, &(struct terminal_wish){.pty = true});
    type(&seen, "sh -c 'echo run''ning; exec sleep 1000'\n");
    cr_assert(wait_text(&seen, "running"));
    type(&seen, "\003");
    type(&seen, "echo r''c=$?\n");
    cr_expect_eq(number_after(&seen, "rc="), 130);
    cr_expect_not(seen.ended);
    close_seen(&seen);
}

Test(terminal, the_window_size_is_the_programs)
{
    struct seen seen = {0};
    struct error err = {0};
    worker(1);
    static const char *const argv[] = {
        "/bin/sh", "-c", "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done",
        NULL};
    open_wish(&seen, 1,
              &(struct terminal_wish){.argv = argv, .pty = true, .rows = 33, .columns = 101});
    cr_assert(wait_text(&seen, "33 101"), "%s", buf_cstr(&seen.text[0]));
    cr_expect_eq(terminal_resize(seen.terminal, 5000, 20, &err), E_OUT_OF_RANGE);
    cr_assert_eq(terminal_resize(seen.terminal, 40, 120, &err), 0);
    cr_expect(wait_text(&seen, "40 120"), "%s", buf_cstr(&seen.text[0]));
    cr_assert(rig_until(&rig, &seen.ended));
    close_seen(&seen);
}

Test(terminal, end_of_input_is_typed_into_a_pty)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, true, "stty -echo; echo ready; cat; echo after");
    cr_assert(wait_text(&seen, "ready"));
    type(&seen, "line\n");
    cr_assert(wait_text(&seen, "line"));
    terminal_end_input(seen.terminal);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "ready\r\nline\r\nafter\r\n");
    close_seen(&seen);
}

/* A reader that is paused: the program blocks, and nothing is stored on its way. */
static void expect_bounded(bool pty)
{
    enum { BYTES = 8 << 20 };
    struct seen seen = {.counts_only = true, .pauses = true};
    worker(1);
    open_sh(&seen, 1, pty, "stty -opost 2>/dev/null; head -c 8388608 /dev/zero; exit 4");
    for (int i = 0; i < RIG_PATIENCE_MS && !seen.bytes; i += 2)
        rig_turn(&rig, 2);
    size_t first = seen.bytes;
    rig_turn(&rig, 300);
    cr_expect(first > 0 && seen.bytes == first, "%zu bytes after a pause", seen.bytes - first);
    cr_expect_not(seen.ended);
    for (int i = 0; i < 20; i++) {
        size_t before = seen.bytes;
        terminal_resume(seen.terminal);
        for (int j = 0; j < RIG_PATIENCE_MS && seen.bytes == before; j += 2)
            rig_turn(&rig, 2);
        cr_expect_leq(seen.bytes - before, TERMINAL_READ_BYTES);
    }
    seen.pauses = false;
    terminal_resume(seen.terminal);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.bytes, BYTES);
    cr_expect_eq(seen.end.code, 4, "%s", seen.end.why);
    close_seen(&seen);
}

Test(terminal, a_slow_reader_stops_the_program_of_a_pty)
{
    expect_bounded(true);
}

Test(terminal, a_slow_reader_stops_a_program_with_pipes)
{
    expect_bounded(false);
}

/* The last output is read although the process ended while its reader was paused. */
Test(terminal, what_was_printed_before_the_end_is_not_lost)
{
    struct seen seen = {.pauses = true};
    worker(1);
    open_sh(&seen, 1, true, "echo first; sleep 0.1; echo last");
    cr_assert(wait_text(&seen, "first"));
    rig_turn(&rig, 900);
    cr_expect_not(seen.ended);
    seen.pauses = false;
    terminal_resume(seen.terminal);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "first\r\nlast\r\n");
    close_seen(&seen);
}

/* 4 MiB into a program that reads slowly: partly accepted, then announced. */
Test(terminal, input_is_accepted_as_far_as_there_is_room)
{
    enum { BYTES = 4 << 20 };
    static char zeros[BYTES];
    struct seen seen = {0};
    size_t sent = 0;
    worker(1);
    open_sh(&seen, 1, false, "sleep 0.2; wc -c");
    sent = terminal_write(seen.terminal, zeros, BYTES);
    cr_expect(sent > 0 && sent < BYTES, "%zu", sent);
    cr_expect_eq(terminal_write(seen.terminal, zeros, BYTES), 0);
    while (sent < BYTES) {
        cr_assert(rig_until(&rig, &seen.room));
        seen.room = false;
        sent += terminal_write(seen.terminal, zeros, BYTES - sent);
    }
    terminal_end_input(seen.terminal);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "4194304\n");
    cr_expect_geq(seen.rooms, 2);
    close_seen(&seen);
}

/* Where it is */

static void read_proc(pid_t pid, const char *name, struct buf *ret)
{
    char path[64], bytes[4096];
    size_t size;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while ((size = fread(bytes, 1, sizeof(bytes), file)) > 0)
        cr_assert_eq(buf_append(ret, bytes, size), 0);
    fclose(file);
}

static void expect_same_file(pid_t a, pid_t b, const char *name)
{
    struct buf of_a = {0}, of_b = {0};
    read_proc(a, name, &of_a);
    read_proc(b, name, &of_b);
    cr_expect(of_a.size == of_b.size && memcmp(of_a.data, of_b.data, of_a.size) == 0,
              "%s: %s, and %s", name, buf_cstr(&of_a), buf_cstr(&of_b));
    buf_fini(&of_a);
    buf_fini(&of_b);
}

static void expect_same_link(pid_t a, pid_t b, const char *name)
{
    char path[64], of_a[256] = "", of_b[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)a, name);
    cr_assert(readlink(path, of_a, sizeof(of_a) - 1) > 0);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)b, name);
    cr_assert(readlink(path, of_b, sizeof(of_b) - 1) > 0);
    cr_expect_str_eq(of_a, of_b, "%s: %s, and %s", name, of_a, of_b);
}

/* What the kernel shows of a worker's process and of a terminal's is the same. */
static void expect_same_place(const struct rig_worker *w, pid_t pid)
{
    static const char *const links[] = {"cwd", "ns/mnt", "ns/ipc", "ns/net", "ns/pid"};
    static const char *const files[] = {"cgroup", "environ", "oom_score_adj", "loginuid"};
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        expect_same_link((pid_t)w->pid, pid, links[i]);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        expect_same_file((pid_t)w->pid, pid, files[i]);
    static const char *const lines[] = {
        "Uid:", "Gid:", "Groups:", "NoNewPrivs:", "CapEff:", "Cpus_allowed:", "SigBlk:", "SigIgn:"};
    struct buf theirs = {0}, own = {0};
    read_proc((pid_t)w->pid, "status", &theirs);
    read_proc(pid, "status", &own);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *a = strstr(buf_cstr(&theirs), lines[i]), *b = strstr(buf_cstr(&own), lines[i]);
        cr_assert(a && b, "%s", lines[i]);
        cr_expect(strncmp(a, b, strcspn(a, "\n") + 1) == 0, "%.60s, and %.60s", a, b);
    }
    buf_fini(&theirs);
    buf_fini(&own);
}

/* The only other `sleep` that this process has started, once it has become it. */
static pid_t other_sleep(const struct rig_worker *w)
{
    pid_t found = 0;
    for (int i = 0; i < RIG_PATIENCE_MS && !found; i += 10) {
        pid_t *pids = NULL;
        size_t count = 0;
        rig_turn(&rig, 10);
        cr_assert_eq(proc_descendants(getpid(), &pids, &count, NULL), 0);
        for (size_t j = 0; j < count; j++) {
            char path[64], exe[256] = "";
            snprintf(path, sizeof(path), "/proc/%d/exe", (int)pids[j]);
            if (pids[j] != (pid_t)w->pid && readlink(path, exe, sizeof(exe) - 1) > 0 &&
                strcmp(strrchr(exe, '/'), "/sleep") == 0)
                found = pids[j];
        }
        free(pids);
    }
    return found;
}

static void expect_beside(void)
{
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                       "CUDA_VISIBLE_DEVICES=GPU-1,GPU-3", "RANK=3", NULL};
    static const struct launch_secret secrets[] = {{"API_KEY", "hidden-value"}};
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    struct seen seen = {0};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .argv = argv,
                            .envp = envp,
                            .token = "tok",
                            .secrets = secrets,
                            .secrets_count = 1,
                            .memory_bytes = 64 << 20,
                            .processes = 64,
                            .cores = "0",
                            .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, NULL), 0);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &w->started));
    open_wish(&seen, 1, &(struct terminal_wish){.argv = argv});
    expect_same_place(w, other_sleep(w));
    close_seen(&seen);
}

Test(terminal, it_is_where_the_worker_is)
{
    expect_beside();
}

Test(terminal, it_is_where_a_worker_of_another_user_is)
{
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    expect_beside();
}

/* An agent that provides no namespaces any more still enters the worker's. */
Test(terminal, an_adopted_worker_keeps_its_namespaces)
{
    struct seen seen = {0};
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    worker(1);
    rig.namespaces = (struct namespaces){0};
    rig_restart(&rig);
    struct rig_worker *w = rig_worker(&rig, 1);
    cr_assert(w->found);
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    open_wish(&seen, 1, &(struct terminal_wish){.argv = argv});
    expect_same_link((pid_t)w->pid, other_sleep(w), "ns/mnt");
    expect_same_link((pid_t)w->pid, other_sleep(w), "ns/ipc");
    close_seen(&seen);
}

/* Its user owns it, no other user can write to it, and it is the controlling one. */
Test(terminal, the_pty_is_its_users_alone)
{
    struct seen seen = {0};
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    namespaces_find(rig.dir, &rig.namespaces);
    rig_as_user(&rig, 65534, 65533);
    worker(1);
    open_sh(&seen, 1, true, "stat -c '%u %a' $(tty); echo x >/dev/tty; exit 0");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "65534 600\r\nx\r\n");
    close_seen(&seen);
}

Test(terminal, it_inherits_no_descriptor_of_the_agent)
{
    struct seen ptys = {0}, pipes = {0};
    worker(1);
    static const char *const argv[] = {"/bin/ls", "-1", "/proc/self/fd", NULL}; /* 3 is its own */
    open_wish(&ptys, 1, &(struct terminal_wish){.argv = argv, .pty = true});
    open_wish(&pipes, 1, &(struct terminal_wish){.argv = argv});
    cr_assert(rig_until(&rig, &ptys.ended) && rig_until(&rig, &pipes.ended));
    cr_expect_str_eq(buf_cstr(&ptys.text[0]), "0\r\n1\r\n2\r\n3\r\n");
    cr_expect_str_eq(buf_cstr(&pipes.text[0]), "0\n1\n2\n3\n");
    close_seen(&ptys);
    close_seen(&pipes);
}

/* Ends */

/* Also what left the session and ignores signals. */
Test(terminal, the_workers_end_ends_all_of_it)
{
    struct seen seen = {0};
    struct rig_worker *w = worker(1);
    open_sh(&seen, 1, true,
            "(trap '' HUP; setsid sh -c 'trap \"\" HUP TERM; echo away=$$; while :; do sleep 0.1;"
            " done') & sleep 0.3; echo pid=$$; while :; do sleep 1; done");
    pid_t away = (pid_t)number_after(&seen, "away="), pid = (pid_t)number_after(&seen, "pid=");
    cr_assert(proc_alive(away, 0) && proc_alive(pid, 0));
    rig.launcher.terminate(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &seen.ended) && rig_until(&rig, &w->ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED, "%d %s", seen.end.reason, seen.end.why);
    cr_expect(!proc_alive(away, 0) && !proc_alive(pid, 0));
    close_seen(&seen);
}

/* The same without a cgroup, which would end them anyway. */
Test(terminal, the_workers_end_ends_all_of_it_without_a_cgroup)
{
    struct seen seen = {0};
    rig.home = (struct cgroup_home){.kind = CGROUP_NONE};
    rig_restart(&rig);
    struct rig_worker *w = worker(1);
    open_sh(&seen, 1, false,
            "setsid sh -c 'trap \"\" HUP TERM; echo away=$$; while :; do sleep 0.1; done' & wait");
    pid_t away = (pid_t)number_after(&seen, "away=");
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &seen.ended) && rig_until(&rig, &w->ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED);
    cr_expect_not(proc_alive(away, 0));
    close_seen(&seen);
}

/* The shell's end ends what it started. */
Test(terminal, background_programs_end_with_their_shell)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, true, "setsid sleep 1000 & echo away=$!; exit 6");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_EXITED && seen.end.code == 6);
    cr_expect_not(proc_alive((pid_t)number_after(&seen, "away="), 0));
    close_seen(&seen);
}

Test(terminal, a_hang_up_is_sighup_and_later_sigkill)
{
    struct seen polite = {0}, stubborn = {0};
    worker(1);
    open_sh(&polite, 1, true, "trap 'echo hup; exit 9' HUP; echo up; while :; do sleep 0.05; done");
    open_sh(&stubborn, 1, true, "trap '' HUP; echo up; while :; do sleep 0.05; done");
    cr_assert(wait_text(&polite, "up") && wait_text(&stubborn, "up"));
    int64_t since = loop_now_ms(rig.loop);
    terminal_hang_up(polite.terminal);
    terminal_hang_up(stubborn.terminal);
    cr_assert(rig_until(&rig, &polite.ended));
    cr_expect(strstr(buf_cstr(&polite.text[0]), "hup"));
    cr_expect(polite.end.reason == TERMINAL_EXITED && polite.end.code == 9);
    cr_assert(rig_until(&rig, &stubborn.ended));
    cr_expect_geq(loop_now_ms(rig.loop) - since, TERMINAL_GRACE_MS);
    cr_expect(stubborn.end.reason == TERMINAL_SIGNALED && stubborn.end.signal == SIGKILL);
    close_seen(&polite);
    close_seen(&stubborn);
}

/* Nothing is told after it, and its place is free when its processes have ended. */
Test(terminal, a_freed_terminal_ends_by_itself)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, true, "echo pid=$$; exec sleep 1000");
    pid_t pid = (pid_t)number_after(&seen, "pid=");
    close_seen(&seen);
    cr_expect(wait_gone(pid));
    cr_expect_not(seen.ended);
}

Test(terminal, a_killed_keeper_takes_its_process_along)
{
    struct seen seen = {0};
    worker(1);
    open_sh(&seen, 1, true, "echo parent=$PPID; echo pid=$$; exec sleep 1000");
    pid_t pid = (pid_t)number_after(&seen, "pid=");
    kill((pid_t)number_after(&seen, "parent="), SIGKILL);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_LOST);
    cr_expect(wait_gone(pid));
    close_seen(&seen);
}

/* An agent that ends loses its terminals; the workers go on. */
Test(terminal, the_agents_end_ends_it)
{
    struct seen seen = {0};
    struct rig_worker *w = worker(1);
    pid_t worker_pid = (pid_t)w->pid;
    open_sh(&seen, 1, false, "trap '' HUP; echo pid=$$; while :; do sleep 0.1; done");
    pid_t pid = (pid_t)number_after(&seen, "pid=");
    rig_restart(&rig);
    cr_expect(wait_gone(pid));
    cr_expect(proc_alive(worker_pid, 0) && !seen.ended);
    buf_fini(&seen.text[0]);
}

Test(terminal, nothing_stays_open)
{
    worker(1);
    int before = open_files();
    for (int i = 0; i < 5; i++) {
        struct seen seen = {0};
        open_sh(&seen, 1, i % 2, "echo x; echo y >&2");
        cr_assert(rig_until(&rig, &seen.ended));
        close_seen(&seen);
    }
    rig_turn(&rig, 100);
    cr_expect_eq(open_files(), before);
}

/* Refusals */

static void expect_refused(const struct terminal_wish *wish, int code, const char *text)
{
    struct seen seen = {0};
    struct error err = {0};
    cr_expect_eq(try_open(&seen, 1, wish, &err), code, "%s", err.text);
    cr_expect(strstr(err.text, text), "%s", err.text);
}

Test(terminal, a_bad_wish_is_refused_with_its_reason)
{
    static const char *many[TERMINAL_ARGS_MAX + 2];
    static char large[TERMINAL_ARGS_MAX_BYTES + 2];
    static const char *const none[] = {NULL}, *const big[] = {"echo", large, NULL};
    for (int i = 0; i <= TERMINAL_ARGS_MAX; i++)
        many[i] = "x";
    memset(large, 'x', sizeof(large) - 1);
    worker(1);
    expect_refused(&(struct terminal_wish){.argv = none}, E_INVALID_ARGUMENT, "empty");
    expect_refused(&(struct terminal_wish){.argv = many}, E_OUT_OF_RANGE, "257 arguments");
    expect_refused(&(struct terminal_wish){.argv = big}, E_OUT_OF_RANGE, "a script");
    expect_refused(&(struct terminal_wish){.pty = true, .type = "a b"}, E_INVALID_ARGUMENT, "TERM");
    expect_refused(&(struct terminal_wish){.pty = true, .rows = 5000}, E_OUT_OF_RANGE, "rows");
    many[TERMINAL_ARGS_MAX] = NULL; /* as many as are allowed */
    many[0] = "/bin/true";
    struct seen seen = {0};
    open_wish(&seen, 1, &(struct terminal_wish){.argv = many});
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.code, 0, "%s", seen.end.why);
    close_seen(&seen);
}

Test(terminal, only_a_running_worker_has_one)
{
    struct seen seen = {0};
    struct error err = {0};
    struct terminal_wish wish = {.pty = true};
    cr_expect_eq(try_open(&seen, 9, &wish, &err), E_NOT_FOUND);
    struct rig_worker *w = rig_sh(&rig, 1, "exit 0");
    cr_expect_eq(try_open(&seen, 1, &wish, &err), E_FAILED_PRECONDITION);
    cr_expect_str_eq(err.text, "the worker has not started yet");
    cr_assert(rig_until(&rig, &w->ended));
    cr_expect_eq(try_open(&seen, 1, &wish, &err), E_FAILED_PRECONDITION);
    cr_expect_str_eq(err.text, "the worker has ended");
}

Test(terminal, a_worker_has_a_limited_number)
{
    struct seen seen[TERMINALS_WORKER_MAX + 1] = {0};
    struct error err = {0};
    const char *const argv[] = {"/bin/cat", NULL};
    struct terminal_wish wish = {.argv = argv};
    worker(1);
    for (int i = 0; i < TERMINALS_WORKER_MAX; i++)
        open_wish(&seen[i], 1, &wish);
    cr_expect_eq(try_open(&seen[TERMINALS_WORKER_MAX], 1, &wish, &err), E_RESOURCE_EXHAUSTED);
    cr_expect(strstr(err.text, "16 terminals are open beside this worker"), "%s", err.text);
    terminal_end_input(seen[0].terminal);
    cr_assert(rig_until(&rig, &seen[0].ended));
    close_seen(&seen[0]);
    int rc = E_RESOURCE_EXHAUSTED;
    for (int i = 0; i < RIG_PATIENCE_MS && rc; i += 2) {
        rig_turn(&rig, 2);
        rc = try_open(&seen[TERMINALS_WORKER_MAX], 1, &wish, &err);
    }
    cr_expect_eq(rc, 0, "%s", err.text);
    for (int i = 1; i <= TERMINALS_WORKER_MAX; i++)
        close_seen(&seen[i]);
}

/* Connections */

static int listen_here(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4) == 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static int try_connect(struct seen *seen, uint16_t port, struct error *err)
{
    struct terminal_events events = events_of(seen);
    return rig.launcher.open_connection(rig.launcher.self, &rig_worker(&rig, 1)->key, port, &events,
                                        &seen->terminal, err);
}

static int accept_one(int listener)
{
    int fd = -1;
    for (int i = 0; i < RIG_PATIENCE_MS && fd < 0; i += 2) {
        rig_turn(&rig, 2);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    cr_assert_geq(fd, 0);
    return fd;
}

Test(terminal, a_connection_carries_bytes_both_ways)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    char bytes[64] = "";
    int listener = listen_here(&port);
    worker(1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    cr_expect_eq(terminal_write(seen.terminal, "early", 5), 0);
    cr_assert(rig_until(&rig, &seen.room));
    type(&seen, "question");
    int fd = accept_one(listener);
    terminal_end_input(seen.terminal);
    cr_expect_eq(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), 8);
    cr_expect_str_eq(bytes, "question");
    cr_assert_eq(write(fd, "answer", 6), 6);
    cr_expect(wait_text(&seen, "answer"));
    cr_expect_not(seen.ended);
    close(fd);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_CLOSED, "%s", seen.end.why);
    close_seen(&seen);
    close(listener);
}

Test(terminal, a_port_without_a_program_is_refused)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    close(listen_here(&port));
    worker(1);
    cr_expect_eq(try_connect(&seen, 0, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    cr_expect_not(seen.ended);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_REFUSED);
    cr_expect(strstr(seen.end.why, "Connection refused"), "%s", seen.end.why);
    close_seen(&seen);
}

Test(terminal, the_workers_end_ends_its_connections)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    char byte;
    int listener = listen_here(&port);
    struct rig_worker *w = worker(1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    int fd = accept_one(listener);
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED);
    cr_expect_eq(read(fd, &byte, 1), 0);
    close_seen(&seen);
    close(fd);
    close(listener);
}

/* The file of the socket that is connected to this port. */
static int owner_of_connection(uint16_t port)
{
    struct stat status = {.st_uid = (uid_t)-1};
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            cr_assert_eq(fstat(fd, &status), 0);
    }
    return (int)status.st_uid;
}

/* Rules of a firewall for a tenant's user hold for it too. */
Test(terminal, a_connection_belongs_to_the_workers_user)
{
    struct seen seen = {0};
    struct error err = {0};
    uint16_t port;
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    int listener = listen_here(&port);
    rig_as_user(&rig, 65534, 65533);
    worker(1);
    cr_assert_eq(try_connect(&seen, port, &err), 0, "%s", err.text);
    int fd = accept_one(listener);
    cr_expect_eq(owner_of_connection(port), 65534);
    cr_expect_eq(geteuid(), 0);
    close_seen(&seen);
    close(fd);
    close(listener);
}
