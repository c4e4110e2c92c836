/* Accepts several unknown connections at once; none may delay the others. If there are more than
 * places, those that have sent nothing are dropped first, because a rank sends its hello at once.
 */
#include "libworker/comm/meeting_accept.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/clock.h"

enum {
    STRANGERS_MAX = 128,
    STRANGER_MS = 2000,      /* time for the hello */
    STRANGER_LEAST_MS = 100, /* the same when others wait for the place */
    CHECK_MS = 20,
    NAMES_MAX = 8,
};

struct stranger {
    int fd;
    bool by_name;
    int64_t deadline_ms;
    struct challenge challenge;
    struct hello hello;
    size_t got;
};

struct door {
    struct meeting *meeting;
    struct stranger strangers[STRANGERS_MAX];
    int count;
    bool starved; /* a connection waits, but no descriptor is left */
};

static int missing_ranks(const struct meeting *meeting, char *ret_names, size_t bytes)
{
    int n = 0;
    size_t at = 0;
    ret_names[0] = '\0';
    for (int p = meeting->self.rank + 1; p < meeting->self.world; p++) {
        if (meeting_complete(meeting, p))
            continue;
        if (n < NAMES_MAX)
            at += (size_t)snprintf(ret_names + at, bytes - at, "%s%d", n ? ", " : "", p);
        n++;
    }
    if (n > NAMES_MAX)
        snprintf(ret_names + at, bytes - at, " and %d more", n - NAMES_MAX);
    return n;
}

/* The oldest connection that has used up its time; NULL if there is none. */
static struct stranger *find_idle(struct door *door)
{
    struct stranger *first = &door->strangers[0];
    for (int i = 1; i < door->count; i++)
        if (door->strangers[i].deadline_ms < first->deadline_ms)
            first = &door->strangers[i];
    int64_t came_ms = first->deadline_ms - STRANGER_MS;
    return comm_now_us() / 1000 >= came_ms + STRANGER_LEAST_MS ? first : NULL;
}

static bool is_full(struct door *door)
{
    return door->count == STRANGERS_MAX && !find_idle(door);
}

static void add_stranger(struct door *door, const struct stranger *stranger)
{
    struct stranger *idle = door->count == STRANGERS_MAX ? find_idle(door) : NULL;
    if (idle)
        close(idle->fd);
    *(idle ? idle : &door->strangers[door->count++]) = *stranger;
}

static void accept_strangers(struct door *door, int listen_fd, bool by_name)
{
    while (!is_full(door)) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            door->starved |= endpoint_starved(errno);
            return;
        }
        struct stranger stranger = {.fd = fd, .by_name = by_name};
        uint8_t nonce[HANDSHAKE_NONCE_BYTES];
        stranger.deadline_ms = comm_now_us() / 1000 + STRANGER_MS;
        bool ok = getrandom(nonce, sizeof(nonce), 0) == (ssize_t)sizeof(nonce);
        challenge_make(&stranger.challenge, nonce);
        ok = ok && send(fd, &stranger.challenge, sizeof(stranger.challenge),
                        MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(stranger.challenge);
        if (ok)
            add_stranger(door, &stranger);
        else
            close(fd);
    }
}

/* The place for an authenticated connection; NULL if it is not allowed. */
static int *place_of(struct meeting *meeting, const struct stranger *stranger)
{
    struct met *met = &meeting->met[stranger->hello.from];
    bool same_host = meeting_same_host(meeting, stranger->hello.from);
    if (stranger->by_name != same_host)
        return NULL;
    if (stranger->hello.channel == CHANNEL_CONTROL)
        return met->control_fd < 0 ? &met->control_fd : NULL;
    int which = (int)stranger->hello.channel - CHANNEL_DATA;
    if (same_host || met->control_fd < 0 || which >= met->connections)
        return NULL;
    return met->data_fds[which] < 0 ? &met->data_fds[which] : NULL;
}

/* Takes ownership of the connection's descriptor. */
static int answer_hello(struct meeting *meeting, struct stranger *stranger, struct error *err)
{
    struct welcome welcome;
    enum handshake_status status =
        hello_check(&stranger->hello, &meeting->self, &stranger->challenge);
    int *place = status == HANDSHAKE_WELCOME ? place_of(meeting, stranger) : NULL;
    if (status == HANDSHAKE_WELCOME && !place)
        status = HANDSHAKE_REFUSED;
    welcome_make(&welcome, &meeting->self, &stranger->hello, status);
    bool said = send(stranger->fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                (ssize_t)sizeof(welcome);
    if (!place || !said) {
        close(stranger->fd);
        return 0;
    }
    *place = stranger->fd;
    meeting_agree(meeting, stranger->hello.from, stranger->hello.connections);
    if (stranger->by_name)
        return meeting_exchange_handles(meeting, stranger->hello.from, err);
    return 0;
}

/* Continue with one connection; true when its hello is complete or it failed. */
static bool read_hello(struct door *door, struct stranger *stranger, int *ret_rc, struct error *err)
{
    ssize_t n = recv(stranger->fd, (char *)&stranger->hello + stranger->got,
                     sizeof(stranger->hello) - stranger->got, MSG_DONTWAIT);
    if (n > 0)
        stranger->got += (size_t)n;
    if (stranger->got == sizeof(stranger->hello)) {
        *ret_rc = answer_hello(door->meeting, stranger, err);
        return true;
    }
    bool waiting = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (waiting && comm_now_us() / 1000 < stranger->deadline_ms)
        return false;
    close(stranger->fd);
    return true;
}

/* Wait for connections or data, or until the next check. A connection that waits for a descriptor
 * would wake the poll all the time. */
static int wait_for_strangers(struct door *door, struct error *err)
{
    const struct comm_listener *listener = door->meeting->listener;
    struct pollfd fds[STRANGERS_MAX + 2];
    bool full = is_full(door) || door->starved;
    for (int i = 0; i < door->count; i++)
        fds[i] = (struct pollfd){.fd = door->strangers[i].fd, .events = POLLIN};
    fds[door->count] = (struct pollfd){.fd = full ? -1 : listener->tcp_fd, .events = POLLIN};
    fds[door->count + 1] = (struct pollfd){.fd = full ? -1 : listener->unix_fd, .events = POLLIN};
    (void)poll(fds, (nfds_t)door->count + 2, CHECK_MS);
    return meeting_pause(door->meeting, 0, err);
}

int meeting_accept(struct meeting *meeting, struct error *err)
{
    struct door door = {.meeting = meeting};
    char names[NAMES_MAX * 16 + 32];
    int rc = 0;
    while (!rc && missing_ranks(meeting, names, sizeof(names)) > 0) {
        rc = wait_for_strangers(&door, err);
        door.starved = false;
        accept_strangers(&door, meeting->listener->unix_fd, true);
        accept_strangers(&door, meeting->listener->tcp_fd, false);
        for (int i = 0; !rc && i < door.count;) {
            if (read_hello(&door, &door.strangers[i], &rc, err))
                door.strangers[i] = door.strangers[--door.count];
            else
                i++;
        }
    }
    for (int i = 0; i < door.count; i++)
        close(door.strangers[i].fd);
    if (rc == WK_ETIMEOUT)
        return error_set(err, rc, "rank %s did not connect to rank %d in %d ms%s", names,
                         meeting->self.rank, meeting->options->connect_timeout_ms,
                         door.starved ? ENDPOINT_STARVED : "");
    return rc;
}
