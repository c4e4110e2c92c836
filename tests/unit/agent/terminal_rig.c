#include "tests/unit/agent/terminal_rig.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env/proc.h"

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

struct terminal_events seen_events(struct seen *seen)
{
    return (struct terminal_events){
        .arg = seen, .output = on_output, .writable = on_writable, .ended = on_ended};
}

int try_open(struct rig *rig, struct seen *seen, const struct terminal_wish *wish,
             struct error *err)
{
    struct terminal_events events = seen_events(seen);
    return rig->launcher.open_terminal(rig->launcher.self, &rig_worker(rig, 1)->key, wish, &events,
                                       &seen->terminal, err);
}

void open_wish(struct rig *rig, struct seen *seen, const struct terminal_wish *wish)
{
    struct error err = {0};
    cr_assert_eq(try_open(rig, seen, wish, &err), 0, "%s", err.text);
}

void open_sh(struct rig *rig, struct seen *seen, bool pty, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct terminal_wish wish = {.argv = argv, .pty = pty, .type = "xterm"};
    open_wish(rig, seen, &wish);
}

void close_seen(struct seen *seen)
{
    terminal_free(seen->terminal);
    buf_fini(&seen->text[0]);
    buf_fini(&seen->text[1]);
}

bool wait_text(struct rig *rig, struct seen *seen, const char *text)
{
    bool has = false;
    for (int i = 0; i < RIG_PATIENCE_MS && !has; i += 2) {
        rig_turn(rig, 2);
        has = strstr(buf_cstr(&seen->text[0]), text) != NULL;
    }
    return has;
}

void type_text(struct seen *seen, const char *text)
{
    cr_assert_eq(terminal_write(seen->terminal, text, strlen(text)), strlen(text));
}

long number_after(struct rig *rig, struct seen *seen, const char *name)
{
    cr_assert(wait_text(rig, seen, name), "no %s in %s", name, buf_cstr(&seen->text[0]));
    rig_turn(rig, 20); /* its digits */
    return atol(strstr(buf_cstr(&seen->text[0]), name) + strlen(name));
}

bool wait_gone(struct rig *rig, pid_t pid)
{
    for (int i = 0; i < RIG_PATIENCE_MS && proc_alive(pid, 0); i += 10)
        rig_turn(rig, 10);
    return !proc_alive(pid, 0);
}

struct rig_worker *rig_sleeper(struct rig *rig, uint64_t uid)
{
    struct rig_worker *w = rig_sh(rig, uid, "echo ready=1; exec sleep 1000");
    rig_number(rig, uid, "ready=");
    cr_assert(rig_until(rig, &w->started));
    return w;
}

void terminal_rig_begin(struct rig *rig)
{
    signal(SIGPIPE, SIG_IGN); /* as agents do */
    rig_init(rig);
}

/* Keepers that were freed end after their launcher: no zombie and no process is left. */
void terminal_rig_finish(struct rig *rig)
{
    rig_turn(rig, 50);
    rig_fini(rig);
    for (int i = 0; i < RIG_PATIENCE_MS && waitpid(-1, NULL, WNOHANG) != -1; i++)
        usleep(1000);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a process is left");
}
