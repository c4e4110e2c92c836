#undef _FORTIFY_SOURCE /* which makes an inline function of recv */
#include "coordinator/api_rest/http_wire.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WIRE_NOT, WIRE_PLAIN, WIRE_TLS };

static _Thread_local int watched = WIRE_NOT;

void http_wire_watch(bool tls)
{
    watched = tls ? WIRE_TLS : WIRE_PLAIN;
}

static ssize_t without_nul(char *bytes, ssize_t size)
{
    char *end = bytes + (size > 0 ? size : 0);
    for (char *at = bytes; at < end && (at = memchr(at, 0, (size_t)(end - at))); at++)
        *at = 1;
    return size;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    ssize_t size = syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL);
    return watched == WIRE_PLAIN ? without_nul(buf, size) : size;
}

struct gnutls_session_int;
typedef ssize_t (*record_recv_fn)(struct gnutls_session_int *session, void *bytes, size_t max);
ssize_t gnutls_record_recv(struct gnutls_session_int *session, void *bytes, size_t max);

__attribute__((visibility("default"))) ssize_t
gnutls_record_recv(struct gnutls_session_int *session, void *bytes, size_t max)
{
    static _Thread_local record_recv_fn receive;
    if (!receive) {
        void *found = dlsym(RTLD_NEXT, "gnutls_record_recv");
        memcpy(&receive, &found, sizeof(receive));
    }
    ssize_t size = receive(session, bytes, max);
    return watched == WIRE_TLS ? without_nul(bytes, size) : size;
}
