#include "libworker/comm/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, SOCKET_FLAGS = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK };

static bool copy_part(char *to, size_t to_bytes, const char *from, const char *end)
{
    size_t bytes = (size_t)(end - from);
    if (bytes == 0 || bytes >= to_bytes)
        return false;
    memcpy(to, from, bytes);
    to[bytes] = '\0';
    return true;
}

int endpoint_parse(const char *text, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {.name = ""};
    size_t scheme = strlen("tcp://");
    const char *end = text + strlen(text);
    const char *hash = strchr(text, '#');
    const char *address_end = hash ? hash : end;
    const char *colon = memrchr(text, ':', (size_t)(address_end - text));
    bool ok = strncmp(text, "tcp://", scheme) == 0 && colon && colon >= text + scheme;
    if (ok) {
        bool v6 = text[scheme] == '[' && colon[-1] == ']';
        ok = copy_part(e.host, sizeof(e.host), text + scheme + v6, colon - v6) &&
             copy_part(e.port, sizeof(e.port), colon + 1, address_end) &&
             (!hash || copy_part(e.name, sizeof(e.name), hash + 1, end));
    }
    if (!ok)
        return error_set(err, WK_EINVAL, "\"%.128s\" is not tcp://HOST:PORT#NAME", text);
    *ret = e;
    return 0;
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t bytes = strlen(name);
    memcpy(ret->sun_path + 1, name, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

static int dial_address(int family, const struct sockaddr *address, socklen_t bytes, int *ret_fd)
{
    int fd = socket(family, SOCKET_FLAGS, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, address, bytes) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

int endpoint_dial(const struct endpoint *endpoint, bool by_name, int *ret_fd)
{
    if (by_name) {
        struct sockaddr_un address;
        socklen_t bytes = abstract_address(endpoint->name, &address);
        return dial_address(AF_UNIX, (struct sockaddr *)&address, bytes, ret_fd);
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(endpoint->host, endpoint->port, &hints, &found) != 0)
        return EADDRNOTAVAIL;
    int error = dial_address(found->ai_family, found->ai_addr, found->ai_addrlen, ret_fd);
    freeaddrinfo(found);
    return error;
}

static bool is_unspecified(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

bool endpoint_starved(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

int endpoint_listen_tcp(const char *host, int port, int *ret_fd, struct error *err)
{
    char service[16];
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc)
        return error_set(err, WK_EINVAL, "cannot listen on %s: %s", host, gai_strerror(rc));
    int on = 1;
    int fd = socket(found->ai_family, SOCKET_FLAGS, 0);
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
              bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    int error = errno;
    freeaddrinfo(found);
    if (!ok) {
        if (fd >= 0)
            close(fd);
        return error_set(err, WK_EUNAVAILABLE, "cannot listen on %s:%d: %s", host, port,
                         strerror(error));
    }
    *ret_fd = fd;
    return 0;
}

static int listen_unix(char *ret_name, size_t name_bytes, int *ret_fd, struct error *err)
{
    uint8_t random[8];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return error_set(err, WK_EUNAVAILABLE, "no random bytes");
    size_t at = (size_t)snprintf(ret_name, name_bytes, "muster-");
    for (size_t i = 0; i < sizeof(random); i++)
        at += (size_t)snprintf(ret_name + at, name_bytes - at, "%02x", random[i]);
    struct sockaddr_un address;
    socklen_t bytes = abstract_address(ret_name, &address);
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set(err, WK_EUNAVAILABLE, "cannot listen on @%s: %s", ret_name,
                         strerror(error));
    }
    *ret_fd = fd;
    return 0;
}

static int name_listener(struct comm_listener *listener, const char *name, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    char host[80], port[8];
    if (getsockname(listener->tcp_fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return error_set(err, WK_EUNAVAILABLE, "a listening socket without an address");
    if (is_unspecified((struct sockaddr *)&address))
        return error_set(err, WK_EINVAL, "%s is no address that peers can reach", host);
    bool v6 = address.ss_family == AF_INET6;
    snprintf(listener->endpoint, sizeof(listener->endpoint), "tcp://%s%s%s:%s#%s", v6 ? "[" : "",
             host, v6 ? "]" : "", port, name);
    return 0;
}

int comm_listen(const char *bind_host, struct comm_listener **ret, struct error *err)
{
    char name[32] = "";
    struct comm_listener *listener = calloc(1, sizeof(*listener));
    if (!listener)
        return error_set(err, WK_ENOMEM, "no memory for a listener");
    listener->tcp_fd = listener->unix_fd = -1;
    int rc = endpoint_listen_tcp(bind_host, 0, &listener->tcp_fd, err);
    if (!rc)
        rc = listen_unix(name, sizeof(name), &listener->unix_fd, err);
    if (!rc)
        rc = name_listener(listener, name, err);
    if (rc) {
        comm_listener_close(listener);
        return rc;
    }
    *ret = listener;
    return 0;
}

const char *comm_listener_endpoint(const struct comm_listener *listener)
{
    return listener->endpoint;
}

void comm_listener_close(struct comm_listener *listener)
{
    if (!listener)
        return;
    if (listener->tcp_fd >= 0)
        close(listener->tcp_fd);
    if (listener->unix_fd >= 0)
        close(listener->unix_fd);
    free(listener);
}
