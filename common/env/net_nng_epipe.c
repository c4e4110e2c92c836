/* NNG 1.5.2 reads EPIPE of a connection as "the socket was closed by its owner". After a peer that
 * leaves during the greeting, a listener accepts nothing more, and a dialer does not reconnect
 * (nanomsg/nng issue 1518, fixed after 1.5.2; a port scanner is enough). These three
 * functions replace libc's for the whole program and return ECONNRESET instead. NNG treats that
 * correctly, as one lost connection. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/env/net_nng_internal.h"

static ssize_t without_epipe(ssize_t result)
{
    if (result < 0 && errno == EPIPE)
        errno = ECONNRESET;
    return result;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
                                                       int flags)
{
    return without_epipe(syscall(SYS_sendmsg, fd, message, flags));
}

__attribute__((visibility("default"))) ssize_t readv(int fd, const struct iovec *iov, int count)
{
    return without_epipe(syscall(SYS_readv, fd, iov, count));
}

__attribute__((visibility("default"))) int getsockopt(int fd, int level, int name, void *value,
                                                      socklen_t *size)
{
    long rc = syscall(SYS_getsockopt, fd, level, name, value, size);
    int pending;
    if (rc == 0 && level == SOL_SOCKET && name == SO_ERROR && *size == sizeof(pending)) {
        memcpy(&pending, value, sizeof(pending));
        if (pending == EPIPE)
            pending = ECONNRESET;
        memcpy(value, &pending, sizeof(pending));
    }
    return (int)rc;
}

void net_nng_mend_epipe(void)
{
}
