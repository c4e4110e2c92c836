#include "common/env/net_reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/net_url.h"

enum { ANSWER_BYTES = 16 };

static bool wait_ready(int fd, short events, int64_t end_ms)
{
    struct pollfd wait = {.fd = fd, .events = events};
    for (;;) {
        int64_t left_ms = end_ms - clock_os_now_ms();
        int count = poll(&wait, 1, left_ms > 0 ? (int)left_ms : 0);
        if (count >= 0 || errno != EINTR)
            return count > 0;
    }
}

/* A connected socket, or -1 with errno: ETIMEDOUT after silence until `end_ms`. */
static int connect_until(const struct sockaddr *address, socklen_t size, int64_t end_ms)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int why = connect(fd, address, size) == 0 ? 0 : errno;
    if (why == EINPROGRESS) {
        socklen_t length = sizeof(why);
        why = ETIMEDOUT;
        if (wait_ready(fd, POLLOUT, end_ms) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length) < 0)
            why = errno;
    }
    if (why == 0)
        return fd;
    close(fd);
    errno = why;
    return -1;
}

static int explain_connect(const char *url, int64_t wait_ms, struct error *err)
{
    char time[FORMAT_MAX];
    switch (errno) {
    case ECONNREFUSED:
    case ENOENT:
        return error_set(err, E_UNAVAILABLE, "no coordinator listens at %s: %s", url,
                         errno == ENOENT ? "there is no such socket"
                                         : "the connection was refused");
    case ETIMEDOUT:
        return error_set(err, E_UNAVAILABLE, "%s is silent: no connection within %s", url,
                         format_duration(wait_ms, time));
    default:
        return error_set(err, E_UNAVAILABLE, "%s cannot be reached: %s", url, strerror(errno));
    }
}

static int connect_path(const char *url, int64_t wait_ms, int *ret_fd, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (str_copy(address.sun_path, sizeof(address.sun_path), net_url_path(url)))
        return error_set(err, E_INVALID_ARGUMENT, "%s: the path is too long", url);
    *ret_fd =
        connect_until((struct sockaddr *)&address, sizeof(address), clock_os_now_ms() + wait_ms);
    return *ret_fd < 0 ? explain_connect(url, wait_ms, err) : 0;
}

static int connect_port(const char *url, int64_t wait_ms, int *ret_fd, struct error *err)
{
    char host[NET_URL_MAX], port[NET_URL_MAX];
    if (!net_url_split(net_url_tcp(url), host, port)) {
        error_set(err, E_INVALID_ARGUMENT, "%.200s: no host and port", url);
        error_hint(err, "write tcp://host:port; an IPv6 host in brackets");
        return E_INVALID_ARGUMENT;
    }
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    int64_t end_ms = clock_os_now_ms() + wait_ms;
    int failed = getaddrinfo(host, port, &wanted, &found);
    if (failed)
        return error_set(err, E_UNAVAILABLE, "the host '%s' of %s is unknown: %s", host, url,
                         gai_strerror(failed));
    *ret_fd = -1;
    for (const struct addrinfo *at = found; at && *ret_fd < 0; at = at->ai_next)
        *ret_fd = connect_until(at->ai_addr, at->ai_addrlen, end_ms);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    return *ret_fd < 0 ? explain_connect(url, wait_ms, err) : 0;
}

static int connect_to(const char *url, int64_t wait_ms, int *ret_fd, struct error *err)
{
    int rc = net_url_check(url, err);
    if (rc)
        return rc;
    return net_url_path(url) ? connect_path(url, wait_ms, ret_fd, err)
                             : connect_port(url, wait_ms, ret_fd, err);
}

int net_reach(const char *url, int64_t wait_ms, struct error *err)
{
    int fd;
    int rc = connect_to(url, wait_ms, &fd, err);
    if (!rc)
        close(fd);
    return rc;
}

/* The first bytes of the answer to `words` on a new connection: their number, 0 at its end, -1
 * without an answer. */
static ssize_t answer_to(const char *url, const void *words, size_t size, int64_t wait_ms,
                         char ret[ANSWER_BYTES])
{
    struct error ignored;
    ssize_t got = -1;
    int fd;
    if (connect_to(url, wait_ms, &fd, &ignored))
        return -1;
    if (send(fd, words, size, MSG_NOSIGNAL) == (ssize_t)size &&
        wait_ready(fd, POLLIN, clock_os_now_ms() + wait_ms))
        got = recv(fd, ret, ANSWER_BYTES, 0);
    close(fd);
    return got;
}

/* Over TLS our protocol answers HTTP with an alert of TLS (RFC 8446 6); over a unix socket it
 * greets first. */
static bool speaks_ours(const char *url, const char *answer, ssize_t got)
{
    static const char alert[] = {0x15, 0x03}, greeting[] = {0, 'S', 'P', 0};
    if (net_url_path(url))
        return got >= (ssize_t)sizeof(greeting) && memcmp(answer, greeting, sizeof(greeting)) == 0;
    return got >= (ssize_t)sizeof(alert) && memcmp(answer, alert, sizeof(alert)) == 0;
}

int net_reach_protocol(const char *url, int64_t wait_ms, struct error *err)
{
    static const char request[] = "GET / HTTP/1.0\r\n\r\n", http[] = "HTTP/";
    char answer[ANSWER_BYTES];
    ssize_t got = answer_to(url, request, strlen(request), wait_ms, answer);
    if (speaks_ours(url, answer, got))
        return 0;
    bool other = got >= 0;
    if (got >= (ssize_t)strlen(http) && memcmp(answer, http, strlen(http)) == 0) {
        error_set(err, E_UNAVAILABLE, "%s speaks HTTP: it is no RPC address", url);
        error_hint(err, "use the address of --rpc, which is tcp://HOST:7440 by default");
        return E_UNAVAILABLE;
    }
    if (other)
        return error_set(err, E_UNAVAILABLE,
                         "the program that listens at %s is not a "
                         "coordinator",
                         url);
    return 0;
}
