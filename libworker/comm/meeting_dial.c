#include "libworker/comm/meeting_dial.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RETRY_MS = 10 };

/* The result of one attempt: 0, WK_EIO for "try again", or a final code. */
static int exchange_hello(struct meeting *meeting, int fd, struct hello *hello, struct error *err)
{
    struct challenge challenge;
    struct welcome welcome;
    int rc = meeting_recv(meeting, fd, &challenge, sizeof(challenge), err);
    if (rc)
        return rc;
    if (!challenge_valid(&challenge))
        return error_set(err, WK_EUNAVAILABLE, "it does not speak this protocol");
    hello_make(hello, &meeting->self, &challenge);
    rc = meeting_send(meeting, fd, hello, sizeof(*hello), err);
    if (!rc)
        rc = meeting_recv(meeting, fd, &welcome, sizeof(welcome), err);
    if (rc)
        return rc;
    switch (welcome_check(&welcome, &meeting->self, hello)) {
    case HANDSHAKE_WELCOME:
        meeting_agree(meeting, hello->to, welcome.connections);
        return 0;
    case HANDSHAKE_BEHIND:
        return error_set(err, WK_EABORT, "it is in generation %llu, so %llu is over",
                         (unsigned long long)welcome.generation,
                         (unsigned long long)meeting->self.generation);
    case HANDSHAKE_AHEAD:
        return error_set(err, WK_EIO, "it is still in generation %llu",
                         (unsigned long long)welcome.generation);
    case HANDSHAKE_REFUSED:
        break;
    }
    return error_set(err, WK_EUNAVAILABLE, "refused: another secret or another place in the world");
}

static int dial_once(struct meeting *meeting, const struct endpoint *endpoint, struct hello *hello,
                     int *ret_fd, struct error *err)
{
    int fd = -1;
    bool by_name = meeting_same_host(meeting, hello->to);
    int error = endpoint_dial(endpoint, by_name, &fd);
    socklen_t bytes = sizeof(error);
    if (error != 0)
        return error_set(err, WK_EIO, "%s", strerror(error));
    int rc = meeting_await(meeting, fd, POLLOUT, err);
    if (!rc && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error != 0)
        rc = error_set(err, WK_EIO, "%s", strerror(error));
    if (!rc)
        rc = exchange_hello(meeting, fd, hello, err);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

static int dial_channel(struct meeting *meeting, int peer, uint16_t channel, int *ret_fd,
                        struct error *err)
{
    const char *text = meeting->options->endpoints[peer];
    struct error last = {.code = 0};
    struct endpoint endpoint;
    int rc = endpoint_parse(text, &endpoint, err);
    if (rc)
        return rc;
    for (;;) {
        struct hello hello = {.to = peer, .channel = channel};
        if (getrandom(hello.nonce, sizeof(hello.nonce), 0) != (ssize_t)sizeof(hello.nonce))
            return error_set(err, WK_EUNAVAILABLE, "no random bytes");
        rc = dial_once(meeting, &endpoint, &hello, ret_fd, &last);
        if (rc == WK_EIO)
            rc = meeting_pause(meeting, RETRY_MS, err);
        else if (rc)
            return error_set(err, rc, "rank %d at %s: %s", peer, text, last.text);
        else
            return 0;
        if (rc == WK_ETIMEOUT)
            return error_set(err, rc, "rank %d at %s did not connect in %d ms: %s", peer, text,
                             meeting->options->connect_timeout_ms, last.text);
        if (rc)
            return rc;
    }
}

int meeting_dial(struct meeting *meeting, int peer, struct error *err)
{
    struct met *met = &meeting->met[peer];
    int rc = dial_channel(meeting, peer, CHANNEL_CONTROL, &met->control_fd, err);
    if (!rc && meeting_same_host(meeting, peer))
        return meeting_exchange_handles(meeting, peer, err);
    for (int i = 0; !rc && i < met->connections; i++)
        rc = dial_channel(meeting, peer, (uint16_t)(CHANNEL_DATA + i), &met->data_fds[i], err);
    return rc;
}
