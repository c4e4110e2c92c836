/* A link over TCP connections. With several, stripes of the stream go over them in turn: the kernel
 * carries them at once, each with its own window. Large transfers go straight between a socket and
 * their place; what must be looked at before it moves (headers, summands) passes through a buffer.
 */
#ifndef COMM_LINK_TCP_H
#define COMM_LINK_TCP_H

#include "common/base/error.h"
#include "libworker/comm/link.h"

/* Takes over fds[count] (connected stream sockets, in the same order on both sides; made
 * non-blocking), also on failure. */
int link_tcp_new(const int *fds, int count, struct link **ret, struct error *err);

/* As any of our connections should be set: no delay, and an end when the other host is gone while
 * nothing moves. */
void link_tcp_prepare(int fd);

/* The same for one that is always read soon: it ends as well when bytes stay unanswered. On the
 * others that would end a pair of which one is late: what waits for a full window counts too. */
void link_tcp_prepare_control(int fd);

#endif
