/* A link over TCP connections. With several, stripes of the stream use them in turn: the kernel
 * sends them in parallel, each with its own window. Large transfers go directly between a socket
 * and their buffers. Data that is read before it moves (headers, summands) passes through a buffer.
 */
#ifndef COMM_LINK_TCP_H
#define COMM_LINK_TCP_H

#include "common/base/error.h"
#include "libworker/comm/link.h"

enum { COMM_TCP_MAX = 4 }; /* data connections of a pair */

/* Takes ownership of fds[count], also on failure. They are connected stream sockets, in the same
 * order on both sides, and are made non-blocking. */
int link_tcp_new(const int *fds, int count, struct link **ret, struct error *err);

/* Set the options of all our connections: no delay, and an end if the other host vanishes while
 * nothing moves. */
void link_tcp_prepare(int fd);

/* The same for a connection that is always read soon: it also ends if bytes stay unacknowledged. On
 * other connections that would end a pair with one late rank, because waiting for a full window
 * counts too. */
void link_tcp_prepare_control(int fd);

#endif
