/* Bytes and ends of terminals beside real workers: ptys and pipes through real keepers. */
#include <criterion/criterion.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/env/proc.h"
#include "tests/lib/open_files.h"
#include "tests/unit/agent/terminal_rig.h"

static struct rig rig;

static void begin(void)
{
    terminal_rig_begin(&rig);
}

static void finish(void)
{
    terminal_rig_finish(&rig);
}

TestSuite(terminal, .init = begin, .fini = finish);

Test(terminal, output_and_exit_code_of_a_pty_arrive)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "test -t 0 && test -t 1 && test -t 2 && echo $TERM; exit 7");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_EXITED, "%s", seen.end.why);
    cr_expect_eq(seen.end.code, 7);
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "xterm\r\n");
    close_seen(&seen);
}

/* As a program does that ends: its descriptors are closed before its exit code is known. */
Test(terminal, a_program_that_closes_its_pty_goes_on)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true,
            "echo here; exec <&- >&- 2>&-; sleep 0.7; echo again >/dev/tty; exec 1>&-; exit 7");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_EXITED, "signal %d", seen.end.signal);
    cr_expect_eq(seen.end.code, 7);
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "here\r\nagain\r\n");
    close_seen(&seen);
}

Test(terminal, pipes_keep_output_and_errors_apart)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false, "cat; echo err >&2; test -t 0 || exit 3");
    type_text(&seen, "typed\n");
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
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false, "kill -SEGV $$");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_SIGNALED && seen.end.signal == SIGSEGV);
    close_seen(&seen);
}

/* Its exec happens in the keeper, as the worker's user. */
Test(terminal, a_program_that_does_not_exist_is_named)
{
    static const char *const argv[] = {"no-such-program", NULL};
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_wish(&rig, &seen, &(struct terminal_wish){.argv = argv, .pty = true});
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_NOT_STARTED);
    cr_expect_eq(seen.end.code, 127);
    cr_expect_str_eq(seen.end.why, "no-such-program: no such program in PATH");
    close_seen(&seen);
}

Test(terminal, without_a_command_it_is_an_interactive_shell)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_wish(&rig, &seen, &(struct terminal_wish){.pty = true, .type = "dumb"});
    type_text(&seen, "case $- in *i*) echo inter''active;; esac\n");
    cr_expect(wait_text(&rig, &seen, "interactive"), "%s", buf_cstr(&seen.text[0]));
    type_text(&seen, "exit 5\n");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.code, 5);
    close_seen(&seen);
}

/* Byte 3 goes to the program in front, not to its shell. */
Test(terminal, control_c_interrupts_the_foreground_program)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_wish(&rig, &seen, &(struct terminal_wish){.pty = true});
    type_text(&seen, "sh -c 'echo run''ning; exec sleep 1000'\n");
    cr_assert(wait_text(&rig, &seen, "running"));
    type_text(&seen, "\003");
    type_text(&seen, "echo r''c=$?\n");
    cr_expect_eq(number_after(&rig, &seen, "rc="), 130);
    cr_expect_not(seen.ended);
    close_seen(&seen);
}

Test(terminal, the_window_size_is_the_programs)
{
    struct seen seen = {0};
    struct error err = {0};
    rig_sleeper(&rig, 1);
    static const char *const argv[] = {
        "/bin/sh", "-c", "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done",
        NULL};
    open_wish(&rig, &seen,
              &(struct terminal_wish){.argv = argv, .pty = true, .rows = 33, .columns = 101});
    cr_assert(wait_text(&rig, &seen, "33 101"), "%s", buf_cstr(&seen.text[0]));
    cr_expect_eq(terminal_resize(seen.terminal, 5000, 20, &err), E_OUT_OF_RANGE);
    cr_assert_eq(terminal_resize(seen.terminal, 40, 120, &err), 0);
    cr_expect(wait_text(&rig, &seen, "40 120"), "%s", buf_cstr(&seen.text[0]));
    cr_assert(rig_until(&rig, &seen.ended));
    close_seen(&seen);
}

Test(terminal, end_of_input_is_typed_into_a_pty)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "stty -echo; echo ready; cat; echo after");
    cr_assert(wait_text(&rig, &seen, "ready"));
    type_text(&seen, "line\n");
    cr_assert(wait_text(&rig, &seen, "line"));
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
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, pty, "stty -opost 2>/dev/null; head -c 8388608 /dev/zero; exit 4");
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
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "echo first; sleep 0.1; echo last");
    cr_assert(wait_text(&rig, &seen, "first"));
    rig_turn(&rig, 900);
    cr_expect_not(seen.ended);
    seen.pauses = false;
    terminal_resume(seen.terminal);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "first\r\nlast\r\n");
    close_seen(&seen);
}

/* All of it arrives although the end is known before the first byte is read. */
Test(terminal, output_that_waits_at_the_end_is_read)
{
    struct seen seen = {.counts_only = true};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false, "head -c 60000 /dev/zero");
    usleep(500000);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.bytes, 60000);
    close_seen(&seen);
}

/* The worker has opened the terminal's pipe, which therefore never ends. */
Test(terminal, an_end_does_not_wait_for_others_that_have_its_output)
{
    struct seen seen = {0};
    struct rig_worker *w = rig_sh(&rig, 1,
                                  "until [ -s pid ]; do sleep 0.02; done;"
                                  "exec 9>/proc/$(cat pid)/fd/1; touch open; exec sleep 1000");
    cr_assert(rig_until(&rig, &w->started));
    open_sh(&rig, &seen, false,
            "echo $$ >pid; until [ -e open ]; do sleep 0.02; done; echo done; exit 2");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_EXITED && seen.end.code == 2);
    cr_expect_str_eq(buf_cstr(&seen.text[0]), "done\n");
    close_seen(&seen);
}

/* 4 MiB into a program that reads slowly: partly accepted, then announced. */
Test(terminal, input_is_accepted_as_far_as_there_is_room)
{
    enum { BYTES = 4 << 20 };
    static char zeros[BYTES];
    struct seen seen = {0};
    size_t sent = 0;
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false, "sleep 0.2; wc -c");
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

/* Ends */

/* Also what left the session and ignores signals. */
Test(terminal, the_workers_end_ends_all_of_it)
{
    struct seen seen = {0};
    struct rig_worker *w = rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true,
            "(trap '' HUP; setsid sh -c 'trap \"\" HUP TERM; echo away=$$; while :; do sleep 0.1;"
            " done') & sleep 0.3; echo pid=$$; while :; do sleep 1; done");
    pid_t away = (pid_t)number_after(&rig, &seen, "away="),
          pid = (pid_t)number_after(&rig, &seen, "pid=");
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
    struct rig_worker *w = rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false,
            "setsid sh -c 'trap \"\" HUP TERM; echo away=$$; while :; do sleep 0.1; done' & wait");
    pid_t away = (pid_t)number_after(&rig, &seen, "away=");
    rig.launcher.kill(rig.launcher.self, &w->key);
    cr_assert(rig_until(&rig, &seen.ended) && rig_until(&rig, &w->ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED);
    cr_expect_not(proc_alive(away, 0));
    close_seen(&seen);
}

/* Nothing is needed from the agent for that: its loop does not turn here. */
Test(terminal, a_keeper_sees_the_workers_end_itself)
{
    struct seen seen = {0};
    rig.home = (struct cgroup_home){.kind = CGROUP_NONE};
    rig_restart(&rig);
    struct rig_worker *w = rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, false, "trap '' HUP; echo pid=$$; while :; do sleep 0.1; done");
    pid_t pid = (pid_t)number_after(&rig, &seen, "pid=");
    kill((pid_t)w->pid, SIGKILL);
    for (int i = 0; i < RIG_PATIENCE_MS && proc_alive(pid, 0); i += 10)
        usleep(10000);
    cr_expect_not(proc_alive(pid, 0));
    cr_assert(rig_until(&rig, &seen.ended) && rig_until(&rig, &w->ended));
    cr_expect_eq(seen.end.reason, TERMINAL_WORKER_ENDED);
    close_seen(&seen);
}

/* The shell's end ends what it started. */
Test(terminal, background_programs_end_with_their_shell)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "setsid sleep 1000 & echo away=$!; exit 6");
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect(seen.end.reason == TERMINAL_EXITED && seen.end.code == 6);
    cr_expect_not(proc_alive((pid_t)number_after(&rig, &seen, "away="), 0));
    close_seen(&seen);
}

Test(terminal, a_hang_up_is_sighup_and_later_sigkill)
{
    struct seen polite = {0}, stubborn = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &polite, true,
            "trap 'echo hup; exit 9' HUP; echo up; while :; do sleep 0.05; done");
    open_sh(&rig, &stubborn, true, "trap '' HUP; echo up; while :; do sleep 0.05; done");
    cr_assert(wait_text(&rig, &polite, "up") && wait_text(&rig, &stubborn, "up"));
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
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "echo pid=$$; exec sleep 1000");
    pid_t pid = (pid_t)number_after(&rig, &seen, "pid=");
    close_seen(&seen);
    cr_expect(wait_gone(&rig, pid));
    cr_expect_not(seen.ended);
}

Test(terminal, a_killed_keeper_takes_its_process_along)
{
    struct seen seen = {0};
    rig_sleeper(&rig, 1);
    open_sh(&rig, &seen, true, "echo parent=$PPID; echo pid=$$; exec sleep 1000");
    pid_t pid = (pid_t)number_after(&rig, &seen, "pid=");
    kill((pid_t)number_after(&rig, &seen, "parent="), SIGKILL);
    cr_assert(rig_until(&rig, &seen.ended));
    cr_expect_eq(seen.end.reason, TERMINAL_LOST);
    cr_expect(wait_gone(&rig, pid));
    close_seen(&seen);
}

/* An agent that ends loses its terminals; the workers go on. */
Test(terminal, the_agents_end_ends_it)
{
    struct seen seen = {0};
    struct rig_worker *w = rig_sleeper(&rig, 1);
    pid_t worker_pid = (pid_t)w->pid;
    open_sh(&rig, &seen, false, "trap '' HUP; echo pid=$$; while :; do sleep 0.1; done");
    pid_t pid = (pid_t)number_after(&rig, &seen, "pid=");
    rig_restart(&rig);
    cr_expect(wait_gone(&rig, pid));
    cr_expect(proc_alive(worker_pid, 0) && !seen.ended);
    buf_fini(&seen.text[0]);
}

Test(terminal, nothing_stays_open)
{
    rig_sleeper(&rig, 1);
    int before = open_files();
    for (int i = 0; i < 5; i++) {
        struct seen seen = {0};
        open_sh(&rig, &seen, i % 2, "echo x; echo y >&2");
        cr_assert(rig_until(&rig, &seen.ended));
        close_seen(&seen);
    }
    rig_turn(&rig, 100);
    cr_expect_eq(open_files(), before);
}
