#include "agent/link/report_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/proc.h"

enum { SILENCE_MS = 200 }; /* after the last bytes */

static void close_pipe(struct report_pipe *pipe)
{
    loop_unwatch(pipe->r->all->loop, pipe->fd);
    close(pipe->fd);
    pipe->r = NULL;
}

/* False if it has no writers any more. */
static bool read_pipe(const struct report_pipe *pipe)
{
    char bytes[REPORT_STACKS_BYTES];
    ssize_t size = read(pipe->fd, bytes, sizeof(bytes));
    if (size > 0)
        report_stacks_add(pipe->r, pipe->peer, bytes, (size_t)size);
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_pipe(void *arg, int fd, uint32_t events)
{
    struct report_pipe *pipe = arg;
    (void)fd;
    (void)events;
    if (!read_pipe(pipe))
        close_pipe(pipe);
}

/* Without descriptors the text arrives by the connection. */
static void give_pipe(struct reporter *r, struct lines_peer *peer, struct report_pipe *pipe)
{
    static const char line[] = "{\"event\":\"pipe\"}";
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return;
    if (!loop_watch(r->all->loop, fds[0], EPOLLIN, on_pipe, pipe, NULL)) {
        *pipe = (struct report_pipe){.r = r, .peer = peer, .fd = fds[0]};
        if (!lines_send_descriptor(peer, line, strlen(line), fds[1]))
            close_pipe(pipe);
    } else {
        close(fds[0]);
    }
    close(fds[1]);
}

void report_stacks_offer(struct reporter *r, struct lines_peer *peer,
                         const struct report_line *line)
{
    struct report_peer *of = *lines_data(peer);
    lines_begin_text(peer);
    if (!of)
        return;
    /* A later process of the same number must not get the signal. */
    if (lines_pid(peer) > 0 && !proc_start_ticks(lines_pid(peer), &of->start_ticks, NULL))
        of->signal = line->signal;
    if (line->pipe)
        give_pipe(r, peer, &of->pipe);
}

void report_stacks_end(struct lines_peer *peer)
{
    struct report_peer *of = *lines_data(peer);
    if (!of || !of->pipe.r)
        return;
    (void)read_pipe(&of->pipe);
    close_pipe(&of->pipe);
}

/* The process that connected may have ended, and left the connection to a child. Its number may
 * then be that of another user's process, which root's agent could signal. */
static bool signal_one(const struct lines_peer *peer, const struct report_peer *of)
{
    struct proc proc;
    uid_t user;
    if (!of || !of->signal || proc_open(lines_pid(peer), of->start_ticks, &proc, NULL))
        return false;
    int rc = proc_user(&proc, &user, NULL);
    if (!rc)
        rc = user == lines_user(peer) ? proc_signal(&proc, of->signal, NULL) : E_PERMISSION_DENIED;
    proc_close(&proc);
    return !rc;
}

void report_stacks_place(struct reporter *r, const char *text)
{
    struct loop *loop = r->all->loop;
    report_stacks_where(text, r->where, sizeof(r->where));
    if (r->quiet && loop_timer_armed(&r->watch))
        loop_timer_set(loop, &r->watch, loop_now_ms(loop), r->watch.fn, r);
}

static void on_silence(void *arg)
{
    struct reporter *r = arg;
    struct report_socket *all = r->all;
    struct error err = {0};
    const struct agent_worker *worker = reporter_worker(r, &err);
    r->stacks_pid = 0;
    if (worker && r->stacks.size > 0) {
        struct buf text = {0};
        (void)buf_printable_lines(&text, buf_cstr(&r->stacks), r->stacks.size);
        report_stacks_place(r, buf_cstr(&text));
        all->events.stacks(all->events.arg, worker, buf_cstr(&text), text.size);
        buf_fini(&text);
    }
    buf_clear(&r->stacks);
}

bool report_stacks_take(struct reporter *r)
{
    struct loop *loop = r->all->loop;
    bool any = false;
    for (struct lines_peer *peer = lines_first(r->lines); peer; peer = lines_next(peer))
        any = signal_one(peer, *lines_data(peer)) || any;
    if (any && !loop_timer_armed(&r->stacks_timer)) {
        buf_clear(&r->stacks);
        loop_timer_set(loop, &r->stacks_timer, loop_now_ms(loop) + REPORT_STACKS_MS, on_silence, r);
    }
    return any;
}

void report_stacks_add(struct reporter *r, struct lines_peer *peer, const char *bytes, size_t size)
{
    struct loop *loop = r->all->loop;
    size_t room = REPORT_STACKS_BYTES - r->stacks.size;
    if (!loop_timer_armed(&r->stacks_timer))
        return; /* unasked */
    if (lines_pid(peer) != r->stacks_pid)
        (void)buf_printf(&r->stacks, "process %d:\n", (int)lines_pid(peer));
    r->stacks_pid = lines_pid(peer);
    room = REPORT_STACKS_BYTES - r->stacks.size;
    (void)buf_append(&r->stacks, bytes, size < room ? size : room);
    loop_timer_set(loop, &r->stacks_timer, loop_now_ms(loop) + SILENCE_MS, on_silence, r);
}

/* Its name without folders, up to `end`. */
static const char *file_of(const char *path, const char *end)
{
    for (const char *slash = path; slash < end; slash++)
        if (*slash == '/')
            path = slash + 1;
    return path;
}

/* "Current thread 0x01 (...):\n  File "/home/me/train.py", line 42 in load\n" */
static bool faulthandler_where(const char *text, char *ret, size_t size)
{
    static const char file[] = "File \"", line[] = "\", line ", in[] = " in ";
    const char *thread = strstr(text, "Current thread");
    const char *path = thread ? strstr(thread, file) : NULL;
    const char *end = path ? strstr(path, line) : NULL;
    const char *number = end ? end + strlen(line) : NULL;
    size_t digits = number ? strspn(number, "0123456789") : 0;
    if (!digits || strncmp(number + digits, in, strlen(in)) != 0)
        return false;
    const char *function = number + digits + strlen(in), *name = file_of(path + strlen(file), end);
    (void)str_printf(ret, size, "%.*s:%.*s in %.*s", (int)(end - name), name, (int)digits, number,
                     (int)strcspn(function, "\n"), function);
    return true;
}

/* "Thread 7 (idle): "MainThread"\n    load (train.py:42)\n"; else the first thread. */
static bool py_spy_where(const char *text, char *ret, size_t size)
{
    const char *named = strstr(text, ": \"MainThread\"\n");
    const char *thread = named ? named : strstr(text, "\nThread ");
    const char *line = thread ? strchr(thread + 1, '\n') : NULL;
    if (!line || line[1] != ' ')
        return false;
    line += 1 + strspn(line + 1, " ");
    const char *colon = memrchr(line, ':', strcspn(line, "\n"));
    const char *open = colon ? memrchr(line, '(', (size_t)(colon - line)) : NULL;
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!open || open < line + 2 || !digits || colon[1 + digits] != ')')
        return false;
    const char *name = file_of(open + 1, colon);
    (void)str_printf(ret, size, "%.*s:%.*s in %.*s", (int)(colon - name), name, (int)digits,
                     colon + 1, (int)(open - 1 - line), line);
    return true;
}

void report_stacks_where(const char *text, char *ret, size_t size)
{
    ret[0] = '\0';
    if (!faulthandler_where(text, ret, size))
        (void)py_spy_where(text, ret, size);
}
