#include "common/env/net_bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/net_url.h"

enum { BACKLOG = 4096 }; /* a whole cluster may reconnect; somaxconn limits it */

const char *net_bind_path(const char *url)
{
    return net_url_path(url);
}

static bool is_socket(const char *path)
{
    struct stat is;
    return lstat(path, &is) == 0 && S_ISSOCK(is.st_mode);
}

static int fail_to_listen(const char *url, struct error *err)
{
    const char *path = net_bind_path(url);
    if (errno == EADDRINUSE)
        return error_set(err, E_ALREADY_EXISTS, "cannot listen at %s: %s", url,
                         path && !is_socket(path) ? "there is something that is no socket"
                                                  : "another program listens there");
    return error_errno(err, errno, "cannot listen at %s", url);
}

/* True for a socket without a listener: its program died without removing it. A file that is not a
 * socket has the same error, and a busy program would keep us waiting. */
static bool is_left_over(const struct sockaddr_un *address)
{
    if (!is_socket(address->sun_path))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static int bind_anew(int fd, const struct sockaddr_un *address)
{
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return -1;
    if (!is_left_over(address)) {
        errno = EADDRINUSE;
        return -1;
    }
    if (unlink(address->sun_path) < 0)
        return -1;
    return bind(fd, (const struct sockaddr *)address, sizeof(*address));
}

static int bind_path(const char *url, int *ret_fd, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = net_bind_path(url);
    if (!*path || str_copy(address.sun_path, sizeof(address.sun_path), path))
        return error_set(err, E_INVALID_ARGUMENT, "cannot listen at %s: a path has 1 to %zu bytes",
                         url, sizeof(address.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_to_listen(url, err);
    int rc = bind_anew(fd, &address);
    /* Connecting is impossible before listen(). */
    if (rc < 0 || chmod(path, S_IRUSR | S_IWUSR) < 0 || listen(fd, BACKLOG) < 0) {
        rc = fail_to_listen(url, err);
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

enum { HANDED_FIRST = 3, HANDED_MAX = 64 };

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr *b, socklen_t size)
{
    const struct sockaddr_in *v4 = (const void *)a, *other4 = (const void *)b;
    const struct sockaddr_in6 *v6 = (const void *)a, *other6 = (const void *)b;
    if (a->ss_family != b->sa_family)
        return false;
    if (a->ss_family == AF_INET && size >= sizeof(*v4))
        return v4->sin_port == other4->sin_port && v4->sin_addr.s_addr == other4->sin_addr.s_addr;
    return a->ss_family == AF_INET6 && size >= sizeof(*v6) && v6->sin6_port == other6->sin6_port &&
           memcmp(&v6->sin6_addr, &other6->sin6_addr, sizeof(v6->sin6_addr)) == 0;
}

/* The socket passed to this process that listens at `address`, or -1. Its port was never free, and
 * connections made while no program ran are served now. */
static int handed_over(const struct addrinfo *address)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t owner, count;
    if (!pid || !fds || parse_i64(pid, 1, INT32_MAX, &owner, NULL) || owner != getpid() ||
        parse_i64(fds, 1, HANDED_MAX, &count, NULL))
        return -1;
    for (int fd = HANDED_FIRST; fd < HANDED_FIRST + count; fd++) {
        struct sockaddr_storage bound = {0};
        socklen_t size = sizeof(bound), flag_size = sizeof(int);
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&bound, &size) == 0 &&
            same_address(&bound, address->ai_addr, address->ai_addrlen)) {
            int own = fcntl(fd, F_DUPFD_CLOEXEC, HANDED_FIRST + (int)count);
            if (own >= 0 && fcntl(own, F_SETFL, O_NONBLOCK) == 0)
                return own;
            if (own >= 0)
                close(own);
        }
    }
    return -1;
}

static int bind_to(const struct addrinfo *address)
{
    int on = 1;
    int handed = handed_over(address);
    if (handed >= 0)
        return handed;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static int bound_port(int fd)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof(bound);
    if (getsockname(fd, (struct sockaddr *)&bound, &size) < 0)
        return 0;
    return ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                             : ((struct sockaddr_in *)&bound)->sin_port);
}

static int bind_port(const char *url, int *ret_fd, char ret_url[NET_URL_MAX], struct error *err)
{
    char host[NET_URL_MAX], port[NET_URL_MAX];
    if (strlen(url) >= NET_URL_MAX || !net_url_split(net_url_tcp(url), host, port)) {
        error_set(err, E_INVALID_ARGUMENT, "cannot listen at %.200s: no host and port", url);
        error_hint(err, "write tcp://host:port; an IPv6 host in brackets");
        return E_INVALID_ARGUMENT;
    }
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    bool all = !host[0] || strcmp(host, "*") == 0;
    int failed = getaddrinfo(all ? NULL : host, port, &wanted, &found);
    if (failed)
        return error_set(err, E_INVALID_ARGUMENT, "cannot listen at %s: %s", url,
                         gai_strerror(failed));
    int fd = bind_to(found);
    freeaddrinfo(found);
    if (fd < 0)
        return fail_to_listen(url, err);
    if (str_printf(ret_url, NET_URL_MAX, "%.*s:%d", (int)(strrchr(url, ':') - url), url,
                   bound_port(fd))) {
        close(fd);
        return error_set(err, E_INVALID_ARGUMENT, "the address is longer than %d bytes",
                         NET_URL_MAX - 1);
    }
    *ret_fd = fd;
    return 0;
}

int net_bind(const char *url, int *ret_fd, char ret_url[NET_URL_MAX], struct error *err)
{
    if (net_url_tcp(url))
        return bind_port(url, ret_fd, ret_url, err);
    int rc = bind_path(url, ret_fd, err);
    if (rc)
        return rc;
    return str_copy(ret_url, NET_URL_MAX, url);
}
