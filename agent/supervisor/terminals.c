#include "agent/supervisor/terminals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "agent/supervisor/port_owner.h"
#include "agent/supervisor/terminal_keeper.h"
#include "agent/supervisor/terminal_state.h"
#include "common/base/buf.h"

enum { PTY_MODE = 0600 };

struct passed { /* descriptors of the keeper; -1 = closed */
    int control;
    int fds[KEEPER_FDS_MAX];
};

static void passed_close(struct passed *passed)
{
    if (passed->control >= 0)
        close(passed->control);
    for (int i = 0; i < KEEPER_FDS_MAX; i++)
        if (passed->fds[i] >= 0)
            close(passed->fds[i]);
}

/* The slave is opened by its master, so that no other file of that name can be in between. It
 * belongs to the worker's user, and no other can write to it. */
static int open_pty(struct terminal *terminal, const struct terminal_wish *wish, int64_t user,
                    struct passed *passed, struct error *err)
{
    struct termios modes;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return error_errno(err, errno, "no terminal can be opened on this node");
    terminal->out[0].fd = master;
    if (fcntl(master, F_SETFL, O_NONBLOCK) || unlockpt(master))
        return error_errno(err, errno, "open a terminal");
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return error_errno(err, errno, "open a terminal");
    passed->fds[0] = slave;
    if (fchown(slave, (uid_t)user, (gid_t)-1) || fchmod(slave, PTY_MODE))
        return error_errno(err, errno, "owner of a terminal");
    if (tcgetattr(slave, &modes) == 0) {
        modes.c_iflag |= IUTF8; /* erase whole characters */
        (void)tcsetattr(slave, TCSANOW, &modes);
    }
    return terminal_set_size(master, wish->rows, wish->columns, err);
}

static int open_pipes(struct terminal *terminal, struct passed *passed, struct error *err)
{
    struct terminal_fd *ends[KEEPER_FDS_MAX] = {&terminal->in, &terminal->out[0],
                                                &terminal->out[1]};
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        int pipe[2];
        if (pipe2(pipe, O_CLOEXEC))
            return error_errno(err, errno, "pipe");
        ends[i]->fd = pipe[i == 0];
        passed->fds[i] = pipe[i != 0];
        if (fcntl(ends[i]->fd, F_SETFL, O_NONBLOCK))
            return error_errno(err, errno, "pipe");
    }
    return 0;
}

static int send_wish(struct terminal *terminal, const struct terminal_wish *wish, struct error *err)
{
    static const char *const none[] = {NULL};
    struct buf message = {0};
    const char *head[] = {wish->pty ? KEEPER_WISH_PTY : KEEPER_WISH_PIPES,
                          wish->type && wish->type[0] ? wish->type : "dumb"};
    for (int i = 0; i < 2; i++)
        buf_append(&message, head[i], strlen(head[i]) + 1);
    for (const char *const *arg = wish->argv ? wish->argv : none; *arg; arg++)
        buf_append(&message, *arg, strlen(*arg) + 1);
    int rc = 0;
    if (buf_failed(&message))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "no memory for arguments");
    else if (send(terminal->control_fd, message.data, message.size, MSG_NOSIGNAL | MSG_DONTWAIT) <
             0)
        rc = error_errno(err, errno, "send a wish to a terminal's keeper");
    buf_fini(&message);
    return rc;
}

static int start_keeper(struct terminal *terminal, const struct terminal_place *place,
                        const struct passed *passed, struct error *err)
{
    struct proc_fd fds[1 + KEEPER_FDS_MAX] = {{passed->control, KEEPER_CONTROL_FD}};
    size_t count = 1;
    for (int i = 0; i < KEEPER_FDS_MAX && passed->fds[i] >= 0; i++)
        fds[count++] = (struct proc_fd){passed->fds[i], KEEPER_FIRST_FD + i};
    int rc = place->spawn(place->arg, fds, count, &terminal->keeper, err);
    if (rc) {
        terminal->keeper.pidfd = -1;
        return rc;
    }
    return terminal_follow(terminal, err);
}

static bool plain_type(const char *type)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
    size_t size = type ? strlen(type) : 0;
    return !size || (size < TERMINAL_TYPE_MAX_BYTES && strspn(type, allowed) == size);
}

static int check_wish(const struct terminal_wish *wish, struct error *err)
{
    size_t count = 0, bytes = 0;
    if (!plain_type(wish->type))
        return error_set(err, E_INVALID_ARGUMENT,
                         "TERM %.80s: at most %d letters, digits and . _ + -", wish->type,
                         TERMINAL_TYPE_MAX_BYTES - 1);
    if (wish->argv && (!wish->argv[0] || !wish->argv[0][0]))
        return error_set(err, E_INVALID_ARGUMENT, "the command is empty: name a program");
    for (; wish->argv && wish->argv[count]; count++)
        bytes += strlen(wish->argv[count]) + 1;
    if (count > TERMINAL_ARGS_MAX || bytes > TERMINAL_ARGS_MAX_BYTES)
        return error_set(err, E_OUT_OF_RANGE,
                         "a command of %zu arguments and %zu bytes: at most %d and %d; put it into "
                         "a script",
                         count, bytes, TERMINAL_ARGS_MAX, TERMINAL_ARGS_MAX_BYTES);
    return 0;
}

static bool same_worker(const struct worker_key *a, const struct worker_key *b)
{
    return a->uid == b->uid && strcmp(a->job, b->job) == 0;
}

static int count_worker(const struct terminals *terminals, const struct worker_key *key)
{
    int count = 0;
    for (const struct list *at = terminals->all.next; at != &terminals->all; at = at->next)
        if (same_worker(&list_entry(at, struct terminal, link)->key, key))
            count++;
    return count;
}

static int terminal_new(struct terminals *terminals, const struct worker_key *key,
                        const struct terminal_events *events, struct terminal **ret,
                        struct error *err)
{
    if (terminals->count >= TERMINALS_NODE_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED,
                         "%d terminals are open on this node, and no more are allowed: end one",
                         TERMINALS_NODE_MAX);
    if (count_worker(terminals, key) >= TERMINALS_WORKER_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED,
                         "%d terminals are open beside this worker, and no more are allowed: end "
                         "one",
                         TERMINALS_WORKER_MAX);
    struct terminal *terminal = calloc(1, sizeof(*terminal));
    if (!terminal)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a terminal");
    terminal_init(terminal, terminals);
    terminal->key = *key;
    terminal->events = *events;
    *ret = terminal;
    return 0;
}

int terminals_open(struct terminals *terminals, const struct terminal_place *place,
                   const struct terminal_wish *wish, const struct terminal_events *events,
                   struct terminal **ret, struct error *err)
{
    struct terminal *terminal;
    struct passed passed = {.control = -1, .fds = {-1, -1, -1}};
    int control[2];
    int rc = check_wish(wish, err);
    if (!rc)
        rc = terminal_new(terminals, place->key, events, &terminal, err);
    if (rc)
        return rc;
    terminal->pty = wish->pty;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control)) {
        rc = error_errno(err, errno, "socket of a terminal");
    } else {
        terminal->control_fd = control[0];
        passed.control = control[1];
        rc = wish->pty ? open_pty(terminal, wish, place->user, &passed, err)
                       : open_pipes(terminal, &passed, err);
    }
    if (!rc)
        rc = send_wish(terminal, wish, err);
    if (!rc)
        rc = start_keeper(terminal, place, &passed, err);
    passed_close(&passed);
    if (rc) {
        terminal_destroy(terminal);
        return rc;
    }
    *ret = terminal;
    return 0;
}

/* With the worker's user as its owner, so that rules of the node for users' connections apply to
 * it. The user of files is one thread's own. */
static int socket_of(int64_t user)
{
    int own = setfsuid((uid_t)user);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int problem = errno;
    (void)setfsuid((uid_t)own);
    errno = problem;
    return fd;
}

/* Not the coordinator's ports, other tenants' or the machine's: with the job's right alone a person
 * reaches what its programs offer. A program of the job may still connect to any of them. */
static int check_port(uint16_t port, int64_t user, bool *ret_listens, struct error *err)
{
    uid_t owner = 0;
    if (!port)
        return error_set(err, E_INVALID_ARGUMENT, "port 0: name one from 1 to 65535");
    int rc = port_owner(port, &owner, err);
    *ret_listens = !rc;
    if (rc == E_NOT_FOUND)
        return 0;
    if (!rc && (int64_t)owner != user)
        rc = error_set(err, E_PERMISSION_DENIED,
                       "port %u is not the job's: the program that listens there runs as another "
                       "user of the node",
                       port);
    return rc;
}

int terminals_connect(struct terminals *terminals, const struct terminal_place *place,
                      uint16_t port, const struct terminal_events *events, struct terminal **ret,
                      struct error *err)
{
    struct terminal *terminal;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool listens = false;
    int rc = check_port(port, place->user, &listens, err);
    if (rc)
        return rc;
    rc = terminal_new(terminals, place->key, events, &terminal, err);
    if (rc)
        return rc;
    int fd = terminal->out[0].fd = socket_of(place->user);
    if (fd < 0) {
        rc = error_errno(err, errno, "socket");
        terminal_destroy(terminal);
        return rc;
    }
    int problem = ECONNREFUSED;
    if (listens)
        problem = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
    terminal_connecting(terminal, problem);
    *ret = terminal;
    return 0;
}

/* The set */

void terminals_init(struct terminals *terminals, struct loop *loop)
{
    terminals->loop = loop;
    terminals->count = 0;
    list_init(&terminals->all);
}

void terminals_fini(struct terminals *terminals)
{
    while (terminals->all.next && !list_empty(&terminals->all))
        terminal_destroy(list_entry(terminals->all.next, struct terminal, link));
}

void terminals_end(struct terminals *terminals, const struct worker_key *key)
{
    for (struct list *at = terminals->all.next; at != &terminals->all; at = at->next) {
        struct terminal *terminal = list_entry(at, struct terminal, link);
        if (!same_worker(&terminal->key, key))
            continue;
        if (terminal->connection)
            terminal_end_now(terminal, TERMINAL_WORKER_ENDED,
                             "the worker ended, and this connection with it");
        else if (terminal->keeper.pidfd >= 0)
            (void)proc_signal(&terminal->keeper, SIGUSR1, NULL);
    }
}
