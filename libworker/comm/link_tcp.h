/* A link over one connected TCP socket. Large transfers go straight between the socket and their
 * place; what must be looked at before it moves (headers, summands) passes through a buffer.
 */
#ifndef COMM_LINK_TCP_H
#define COMM_LINK_TCP_H

#include "common/base/error.h"
#include "libworker/comm/link.h"

/* Takes over `fd` (a connected stream socket; made non-blocking), also on failure. */
int link_tcp_new(int fd, struct link **ret, struct error *err);

#endif
