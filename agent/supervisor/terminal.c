#include "agent/supervisor/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "agent/supervisor/terminal_keeper.h"
#include "agent/supervisor/terminal_state.h"
#include "common/base/str.h"

enum {
    LINGER_MS = 500, /* after the last process: another one may have its pty or pipe open */
    REST_MS = 200,   /* until a pty that no process had open is read again */
    ROWS = 24,
    COLUMNS = 80,
};

static void out_event(void *arg, int fd, uint32_t epoll_events);
static void in_event(void *arg, int fd, uint32_t epoll_events);

/* Descriptors */

static struct terminal_fd *input_of(struct terminal *terminal)
{
    return terminal->pty || terminal->connection ? &terminal->out[0] : &terminal->in;
}

static void fd_close(struct terminal *terminal, struct terminal_fd *end)
{
    if (end->fd < 0)
        return;
    loop_unwatch(terminal->set->loop, end->fd);
    close(end->fd);
    *end = (struct terminal_fd){.fd = -1};
}

static void fd_watch(struct terminal *terminal, struct terminal_fd *end, uint32_t wanted,
                     loop_fd_fn fn)
{
    struct loop *loop = terminal->set->loop;
    if (end->fd < 0 || end->watched == wanted)
        return;
    loop_unwatch(loop, end->fd);
    end->watched = wanted;
    /* Unwatched it would hang for ever; the end of a program that does not answer is clearer. */
    if (wanted && loop_watch(loop, end->fd, wanted, fn, terminal, NULL))
        fd_close(terminal, end);
}

/* A descriptor at its end would be reported for ever, so it is not watched without need. */
void terminal_watch(struct terminal *terminal)
{
    uint32_t in = terminal->paused || terminal->connecting ? 0 : EPOLLIN;
    bool room = terminal->wants_room || terminal->connecting;
    struct terminal_fd *input = input_of(terminal);
    for (int i = 0; i < TERMINAL_STREAMS; i++) {
        struct terminal_fd *end = &terminal->out[i];
        uint32_t wanted = in | (room && end == input ? EPOLLOUT : 0);
        fd_watch(terminal, end, end->rests ? 0 : wanted, out_event);
    }
    fd_watch(terminal, &terminal->in, room ? EPOLLOUT : 0, in_event);
}

/* The end */

void terminal_destroy(struct terminal *terminal)
{
    struct loop *loop = terminal->set->loop;
    loop_timer_cancel(loop, &terminal->timer);
    for (int i = 0; i < TERMINAL_STREAMS; i++)
        fd_close(terminal, &terminal->out[i]);
    fd_close(terminal, &terminal->in);
    if (terminal->control_fd >= 0) {
        loop_unwatch(loop, terminal->control_fd);
        close(terminal->control_fd);
    }
    if (terminal->keeper.pidfd >= 0) {
        loop_unwatch(loop, terminal->keeper.pidfd);
        proc_close(&terminal->keeper);
    }
    list_remove(&terminal->link);
    terminal->set->count--;
    free(terminal);
}

static void step(void *arg);

static void step_in(struct terminal *terminal, int64_t ms)
{
    struct loop *loop = terminal->set->loop;
    loop_timer_set(loop, &terminal->timer, loop_now_ms(loop) + ms, step, terminal);
}

static void read_again(struct terminal *terminal)
{
    if (!terminal->out[0].rests)
        return;
    terminal->out[0].rests = false;
    terminal_watch(terminal);
}

static void set_end(struct terminal *terminal, const struct terminal_end *end)
{
    if (terminal->over)
        return;
    terminal->over = true;
    terminal->connecting = terminal->wants_room = false;
    terminal->end = *end;
    step_in(terminal, terminal->lingered ? 0 : LINGER_MS);
    read_again(terminal);
}

/* Nothing of its output is waited for. */
void terminal_end_now(struct terminal *terminal, enum terminal_reason reason, const char *why)
{
    struct terminal_end end = {.reason = reason};
    (void)str_copy(end.why, sizeof(end.why), why);
    terminal->lingered = true;
    set_end(terminal, &end);
}

/* Report the end if it is due, from the loop only. */
static void tell_end(struct terminal *terminal)
{
    bool drained = terminal->out[0].fd < 0 && terminal->out[1].fd < 0;
    if (terminal->released) {
        if (terminal->keeper.pidfd < 0)
            terminal_destroy(terminal);
        return;
    }
    if (!terminal->over || terminal->ended || (!drained && !terminal->lingered) ||
        (terminal->paused && !drained))
        return;
    for (int i = 0; i < TERMINAL_STREAMS; i++)
        fd_close(terminal, &terminal->out[i]);
    fd_close(terminal, &terminal->in);
    terminal->ended = true;
    terminal->events.ended(terminal->events.arg, &terminal->end);
}

/* The timer: a connection took too long, the rest of the output did, or a pty has rested. */
static void step(void *arg)
{
    struct terminal *terminal = arg;
    if (terminal->connecting)
        terminal_end_now(terminal, TERMINAL_REFUSED, "the program on that port does not accept");
    else
        terminal->lingered = terminal->lingered || terminal->over;
    if (!terminal->released)
        read_again(terminal);
    tell_end(terminal);
}

/* Bytes */

static void refuse_connection(struct terminal *terminal, int problem)
{
    char why[TERMINAL_WHY_BYTES];
    (void)str_printf(why, sizeof(why), "no program accepts connections on that port: %s",
                     strerror(problem));
    terminal_end_now(terminal, TERMINAL_REFUSED, why);
}

static void connected(struct terminal *terminal)
{
    int problem = 0;
    socklen_t size = sizeof(problem);
    if (getsockopt(terminal->out[0].fd, SOL_SOCKET, SO_ERROR, &problem, &size))
        problem = errno;
    if (problem) {
        refuse_connection(terminal, problem);
        return;
    }
    terminal->connecting = false;
    loop_timer_cancel(terminal->set->loop, &terminal->timer);
}

void terminal_connecting(struct terminal *terminal, int problem)
{
    terminal->connection = true;
    if (problem && problem != EINPROGRESS) {
        refuse_connection(terminal, problem);
        return;
    }
    terminal->connecting = true;
    step_in(terminal, TERMINAL_CONNECT_MS);
    terminal_watch(terminal);
}

/* EIO: no process has the pty open. They may still run: closing it would send them SIGHUP. */
static void output_ended(struct terminal *terminal, struct terminal_fd *end, int problem)
{
    if (terminal->pty && !terminal->over) {
        end->rests = true;
        step_in(terminal, REST_MS);
        return;
    }
    fd_close(terminal, end);
    if (!terminal->connection)
        return;
    if (problem)
        terminal_end_now(terminal, TERMINAL_LOST, strerror(problem));
    else
        terminal_end_now(terminal, TERMINAL_CLOSED, "");
}

static void read_output(struct terminal *terminal, struct terminal_fd *end)
{
    char *bytes = terminal->set->bytes;
    ssize_t size = read(end->fd, bytes, TERMINAL_READ_BYTES);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size > 0)
        terminal->events.output(terminal->events.arg,
                                end == &terminal->out[0] ? TERMINAL_OUTPUT : TERMINAL_ERRORS, bytes,
                                (size_t)size);
    else
        output_ended(terminal, end, size < 0 ? errno : 0);
}

static void offer_room(struct terminal *terminal)
{
    if (!terminal->wants_room)
        return;
    terminal->wants_room = false;
    terminal->events.writable(terminal->events.arg);
}

/* A released terminal is destroyed only by tell_end, so it lives through the callbacks. */
static void out_event(void *arg, int fd, uint32_t epoll_events)
{
    struct terminal *terminal = arg;
    struct terminal_fd *end = &terminal->out[fd == terminal->out[0].fd ? 0 : 1];
    bool was_connecting = terminal->connecting;
    if (was_connecting)
        connected(terminal);
    bool hung_up = epoll_events & (EPOLLHUP | EPOLLERR);
    if (!terminal->connecting && !terminal->released && (epoll_events & EPOLLOUT || hung_up))
        offer_room(terminal);
    if (!was_connecting && !terminal->paused && !terminal->released && end->fd == fd &&
        (epoll_events & EPOLLIN || hung_up))
        read_output(terminal, end);
    if (!terminal->released)
        terminal_watch(terminal);
    tell_end(terminal);
}

/* The other end of the pipe is closed, or there is room. */
static void in_event(void *arg, int fd, uint32_t epoll_events)
{
    struct terminal *terminal = arg;
    (void)fd;
    if (epoll_events & EPOLLERR)
        fd_close(terminal, &terminal->in);
    offer_room(terminal);
    if (!terminal->released)
        terminal_watch(terminal);
    tell_end(terminal);
}

size_t terminal_write(struct terminal *terminal, const char *bytes, size_t size)
{
    struct terminal_fd *input = input_of(terminal);
    if (terminal->released || terminal->over || terminal->input_ended || input->fd < 0)
        return 0;
    ssize_t done = terminal->connecting ? 0 : write(input->fd, bytes, size);
    if (done < 0 && errno != EAGAIN && errno != EINTR) { /* its end is seen by the read side */
        terminal->input_ended = true;
        return 0;
    }
    size_t accepted = done > 0 ? (size_t)done : 0;
    terminal->wants_room = accepted < size;
    terminal_watch(terminal);
    return accepted;
}

static void type_end_of_file(const struct terminal *terminal)
{
    struct termios modes;
    int fd = terminal->out[0].fd;
    if (tcgetattr(fd, &modes) || !(modes.c_lflag & ICANON))
        return;
    char byte = (char)modes.c_cc[VEOF];
    if (write(fd, &byte, 1) < 0)
        return; /* full of input that no program reads */
}

void terminal_end_input(struct terminal *terminal)
{
    struct terminal_fd *input = input_of(terminal);
    if (terminal->input_ended || terminal->over || input->fd < 0)
        return;
    terminal->input_ended = !terminal->pty; /* a person may type on after it */
    terminal->wants_room = false;
    if (terminal->pty)
        type_end_of_file(terminal);
    else if (terminal->connection)
        (void)shutdown(input->fd, SHUT_WR);
    else
        fd_close(terminal, input);
    terminal_watch(terminal);
}

void terminal_pause(struct terminal *terminal)
{
    terminal->paused = true;
    terminal_watch(terminal);
}

void terminal_resume(struct terminal *terminal)
{
    terminal->paused = false;
    terminal_watch(terminal);
    if (terminal->over && !terminal->ended && !terminal->released) {
        terminal->lingered = false;
        step_in(terminal, LINGER_MS);
    }
}

int terminal_set_size(int fd, uint16_t rows, uint16_t columns, struct error *err)
{
    if (rows > TERMINAL_SIDE_MAX || columns > TERMINAL_SIDE_MAX)
        return error_set(err, E_OUT_OF_RANGE, "a terminal of %u rows and %u columns: at most %d",
                         rows, columns, TERMINAL_SIDE_MAX);
    struct winsize size = {.ws_row = rows ? rows : ROWS, .ws_col = columns ? columns : COLUMNS};
    return ioctl(fd, TIOCSWINSZ, &size) < 0 ? error_errno(err, errno, "size of a terminal") : 0;
}

int terminal_resize(struct terminal *terminal, uint16_t rows, uint16_t columns, struct error *err)
{
    if (!terminal->pty)
        return error_set(err, E_FAILED_PRECONDITION, "the program has no terminal");
    if (terminal->out[0].fd < 0) /* its end is on the way */
        return 0;
    return terminal_set_size(terminal->out[0].fd, rows, columns, err);
}

void terminal_hang_up(struct terminal *terminal)
{
    if (terminal->over)
        return;
    if (terminal->connection)
        terminal_end_now(terminal, TERMINAL_CLOSED, "");
    else if (terminal->keeper.pidfd >= 0)
        (void)proc_signal(&terminal->keeper, SIGTERM, NULL);
}

void terminal_free(struct terminal *terminal)
{
    if (!terminal || terminal->released)
        return;
    terminal_hang_up(terminal);
    terminal->released = true;
    for (int i = 0; i < TERMINAL_STREAMS; i++)
        fd_close(terminal, &terminal->out[i]);
    fd_close(terminal, &terminal->in);
    step_in(terminal, 0);
}

/* The keeper */

static void read_reports(struct terminal *terminal)
{
    struct keeper_report report;
    if (terminal->control_fd < 0)
        return;
    ssize_t size = recv(terminal->control_fd, &report, sizeof(report), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    loop_unwatch(terminal->set->loop, terminal->control_fd);
    if (size == (ssize_t)sizeof(report) && report.version == KEEPER_REPORT_VERSION)
        set_end(terminal, &report.end);
    else if (size > 0)
        terminal_end_now(terminal, TERMINAL_LOST,
                         "muster on this node is newer than its agent: restart the agent");
}

static void control_event(void *arg, int fd, uint32_t epoll_events)
{
    struct terminal *terminal = arg;
    (void)fd;
    (void)epoll_events;
    read_reports(terminal);
    tell_end(terminal);
}

static void keeper_event(void *arg, int fd, uint32_t epoll_events)
{
    struct terminal *terminal = arg;
    struct proc_exit exit;
    (void)epoll_events;
    read_reports(terminal);
    (void)proc_wait(&terminal->keeper, false, &exit, NULL);
    loop_unwatch(terminal->set->loop, fd);
    proc_close(&terminal->keeper);
    terminal->keeper.pidfd = -1;
    if (!terminal->over)
        terminal_end_now(terminal, TERMINAL_LOST,
                         "the terminal's keeper ended without a report: it was killed, or shim.log "
                         "of the worker's run has why");
    tell_end(terminal);
}

int terminal_follow(struct terminal *terminal, struct error *err)
{
    struct loop *loop = terminal->set->loop;
    int rc = loop_watch(loop, terminal->keeper.pidfd, EPOLLIN, keeper_event, terminal, err);
    if (!rc)
        rc = loop_watch(loop, terminal->control_fd, EPOLLIN, control_event, terminal, err);
    if (!rc)
        terminal_watch(terminal);
    return rc;
}

void terminal_init(struct terminal *terminal, struct terminals *set)
{
    terminal->set = set;
    terminal->in.fd = terminal->control_fd = terminal->keeper.pidfd = -1;
    for (int i = 0; i < TERMINAL_STREAMS; i++)
        terminal->out[i].fd = -1;
    list_push_back(&set->all, &terminal->link);
    set->count++;
}
