#include "agent/link/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/str.h"

enum { BACKLOG = 64, ACCEPT_AGAIN_MS = 100 };

struct lines {
    struct loop *loop;
    struct lines_events events;
    struct sockaddr_un address;
    int64_t owner;
    int fd;
    struct list peers;
    int peers_count;
    struct loop_timer accept; /* when there was no descriptor left for a connection */
};

struct lines_peer {
    struct lines *lines;
    struct list link;
    int fd;
    pid_t pid;
    uid_t user;
    bool is_text;
    bool skips;   /* the rest of a line that is too long */
    bool writes;  /* watched for room, too */
    bool working; /* one of its bytes' callbacks runs */
    char *begun;  /* [LINES_BYTES + 1] of a line without its end; NULL = nothing */
    size_t begun_size;
    struct buf unsent;
    void *data;
};

static void watch_peer(struct lines_peer *peer, bool writes);

static void peer_free(struct lines_peer *peer)
{
    loop_unwatch(peer->lines->loop, peer->fd);
    close(peer->fd);
    list_remove(&peer->link);
    peer->lines->peers_count--;
    free(peer->begun);
    buf_fini(&peer->unsent);
    free(peer);
}

static void peer_end(struct lines_peer *peer)
{
    struct lines *lines = peer->lines;
    lines->events.gone(lines->events.arg, peer);
    peer_free(peer);
}

static void give_line(struct lines_peer *peer, char *line, size_t size)
{
    struct lines_events *events = &peer->lines->events;
    if (peer->skips)
        events->too_long(events->arg, peer);
    else
        events->line(events->arg, peer, line, size);
    peer->skips = false;
}

/* Keep the begin of a line; what is too long is not kept, only its end is waited for. */
static void keep(struct lines_peer *peer, const char *bytes, size_t size)
{
    if (peer->begun_size + size > LINES_BYTES)
        peer->skips = true;
    if (!peer->skips && !peer->begun && !(peer->begun = malloc(LINES_BYTES + 1)))
        peer->skips = true;
    if (peer->skips) {
        peer->begun_size = 0;
        return;
    }
    memcpy(peer->begun + peer->begun_size, bytes, size);
    peer->begun_size += size;
}

static void end_line(struct lines_peer *peer, char *rest, size_t size)
{
    if (peer->begun_size == 0 && !peer->skips && size <= LINES_BYTES) {
        rest[size] = '\0'; /* in place of its end */
        give_line(peer, rest, size);
        return;
    }
    keep(peer, rest, size);
    if (!peer->skips)
        peer->begun[peer->begun_size] = '\0';
    size = peer->begun_size;
    peer->begun_size = 0;
    give_line(peer, peer->begun, size);
}

static void split(struct lines_peer *peer, char *bytes, size_t size)
{
    struct lines_events *events = &peer->lines->events;
    while (size > 0 && !peer->is_text) {
        char *end = memchr(bytes, '\n', size);
        if (!end) {
            keep(peer, bytes, size);
            return;
        }
        end_line(peer, bytes, (size_t)(end - bytes));
        size -= (size_t)(end - bytes) + 1;
        bytes = end + 1;
    }
    if (size > 0)
        events->text(events->arg, peer, bytes, size);
}

/* False if the connection is over. */
static bool read_some(struct lines_peer *peer)
{
    char bytes[LINES_READ_BYTES];
    for (int i = 0; i < LINES_READS; i++) {
        ssize_t size = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR;
        if (size == 0)
            return false;
        split(peer, bytes, (size_t)size);
    }
    return true;
}

/* False if the connection is over. */
static bool write_unsent(struct lines_peer *peer)
{
    size_t done = 0;
    while (done < peer->unsent.size) {
        ssize_t size = send(peer->fd, peer->unsent.data + done, peer->unsent.size - done,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (size < 0)
            break;
        done += (size_t)size;
    }
    size_t left = peer->unsent.size - done;
    if (done > 0 && left > 0)
        memmove(peer->unsent.data, peer->unsent.data + done, left);
    peer->unsent.size = left;
    return true;
}

static void on_peer(void *arg, int fd, uint32_t events)
{
    struct lines_peer *peer = arg;
    (void)fd;
    bool lives = true;
    if (events & EPOLLOUT)
        lives = write_unsent(peer);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        peer->working = true;
        lives = read_some(peer) && lives;
        peer->working = false;
        lives = write_unsent(peer) && lives; /* also to one that only reads from now on */
    }
    if (!lives)
        peer_end(peer);
    else if (peer->writes != (peer->unsent.size > 0))
        watch_peer(peer, peer->unsent.size > 0);
}

static void watch_peer(struct lines_peer *peer, bool writes)
{
    struct loop *loop = peer->lines->loop;
    peer->writes = writes;
    loop_unwatch(loop, peer->fd);
    /* Its place is there: it was watched a moment ago. */
    (void)loop_watch(loop, peer->fd, EPOLLIN | (writes ? EPOLLOUT : 0), on_peer, peer, NULL);
}

bool lines_send(struct lines_peer *peer, const char *text, size_t size)
{
    if (peer->unsent.size + size + 1 > LINES_UNSENT_BYTES)
        (void)write_unsent(peer);
    if (peer->unsent.size + size + 1 > LINES_UNSENT_BYTES ||
        buf_append(&peer->unsent, text, size) || buf_char(&peer->unsent, '\n'))
        return false;
    if (peer->working)
        return true; /* it is written when its bytes are worked off */
    /* A connection that is over is noticed by reading it. */
    (void)write_unsent(peer);
    if (peer->unsent.size > 0 && !peer->writes)
        watch_peer(peer, true);
    return true;
}

bool lines_send_descriptor(struct lines_peer *peer, const char *text, size_t size, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    char end = '\n';
    struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)text, .iov_len = size},
                            {.iov_base = &end, .iov_len = 1}};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    if (!write_unsent(peer) || peer->unsent.size > 0)
        return false;
    return sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size + 1;
}

void lines_begin_text(struct lines_peer *peer)
{
    peer->is_text = true;
}

static bool is_welcome(const struct lines *lines, int fd, struct ucred *ret)
{
    socklen_t size = sizeof(*ret);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size))
        return false;
    int64_t owner = lines->owner >= 0 ? lines->owner : (int64_t)geteuid();
    return ret->uid == 0 || ret->uid == owner;
}

static void add_peer(struct lines *lines, int fd)
{
    struct ucred process = {.pid = 0};
    struct lines_peer *peer = NULL;
    if (lines->peers_count < LINES_PEERS_MAX && is_welcome(lines, fd, &process))
        peer = calloc(1, sizeof(*peer));
    if (!peer || loop_watch(lines->loop, fd, EPOLLIN, on_peer, peer, NULL)) {
        free(peer);
        close(fd);
        return;
    }
    peer->lines = lines;
    peer->fd = fd;
    peer->pid = process.pid;
    peer->user = process.uid;
    buf_init(&peer->unsent, LINES_UNSENT_BYTES + 1);
    list_push_back(&lines->peers, &peer->link);
    lines->peers_count++;
}

static void on_knock(void *arg, int listening, uint32_t events);

static void watch_again(void *arg)
{
    struct lines *lines = arg;
    if (loop_watch(lines->loop, lines->fd, EPOLLIN, on_knock, lines, NULL))
        loop_timer_set(lines->loop, &lines->accept, loop_now_ms(lines->loop) + ACCEPT_AGAIN_MS,
                       watch_again, lines);
}

/* Without a descriptor for it the connection would be reported again and again. */
static void on_knock(void *arg, int listening, uint32_t events)
{
    struct lines *lines = arg;
    (void)events;
    for (int i = 0; i < BACKLOG; i++) {
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            add_peer(lines, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_unwatch(lines->loop, listening);
            loop_timer_set(lines->loop, &lines->accept, loop_now_ms(lines->loop) + ACCEPT_AGAIN_MS,
                           watch_again, lines);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* An earlier agent of this folder left its socket; anything else at the path is an error. */
static int bind_path(struct lines *lines)
{
    const struct sockaddr *address = (const struct sockaddr *)&lines->address;
    const char *path = lines->address.sun_path;
    struct stat is;
    if (lstat(path, &is) == 0 && S_ISSOCK(is.st_mode) && unlink(path))
        return -1;
    if (bind(lines->fd, address, sizeof(lines->address)))
        return -1;
    /* Connecting is impossible before listen(). */
    if (chmod(path, S_IRUSR | S_IWUSR) ||
        (lines->owner >= 0 && lines->owner != (int64_t)geteuid() &&
         lchown(path, (uid_t)lines->owner, (gid_t)-1)))
        return -1;
    return listen(lines->fd, BACKLOG);
}

int lines_new(const struct lines_options *options, struct loop *loop, struct lines **ret,
              struct error *err)
{
    struct lines *lines = calloc(1, sizeof(*lines));
    if (!lines)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a worker's socket");
    lines->loop = loop;
    lines->events = options->events;
    lines->owner = options->owner;
    lines->address.sun_family = AF_UNIX;
    list_init(&lines->peers);
    int rc = 0;
    lines->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lines->fd < 0)
        rc = error_errno(err, errno, "no socket for a worker's reports");
    else if (str_copy(lines->address.sun_path, sizeof(lines->address.sun_path), options->path))
        rc = error_set(err, E_INVALID_ARGUMENT, "%s is too long for a socket", options->path);
    else if (bind_path(lines))
        rc = error_errno(err, errno, "cannot listen at %s", options->path);
    else
        rc = loop_watch(loop, lines->fd, EPOLLIN, on_knock, lines, err);
    if (rc) {
        lines_leave(lines);
        return rc;
    }
    *ret = lines;
    return 0;
}

void lines_leave(struct lines *lines)
{
    if (!lines)
        return;
    for (struct lines_peer *peer; (peer = list_first(&lines->peers, struct lines_peer, link));)
        peer_free(peer);
    loop_timer_cancel(lines->loop, &lines->accept);
    if (lines->fd >= 0) {
        loop_unwatch(lines->loop, lines->fd);
        close(lines->fd);
    }
    free(lines);
}

void lines_free(struct lines *lines)
{
    if (lines)
        (void)unlink(lines->address.sun_path);
    lines_leave(lines);
}

pid_t lines_pid(const struct lines_peer *peer)
{
    return peer->pid;
}

uid_t lines_user(const struct lines_peer *peer)
{
    return peer->user;
}

struct lines_peer *lines_first(const struct lines *lines)
{
    return list_first(&lines->peers, struct lines_peer, link);
}

struct lines_peer *lines_next(const struct lines_peer *peer)
{
    struct list *next = peer->link.next;
    return next == &peer->lines->peers ? NULL : list_entry(next, struct lines_peer, link);
}

void **lines_data(struct lines_peer *peer)
{
    return &peer->data;
}
