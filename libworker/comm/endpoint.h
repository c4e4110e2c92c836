/* The address of a rank: "tcp://HOST:PORT#NAME". NAME is an abstract unix socket for ranks of the
 * same host. Sockets made here are close-on-exec and non-blocking. Any thread. */
#ifndef COMM_ENDPOINT_H
#define COMM_ENDPOINT_H

#include <stdbool.h>

#include "libworker/comm/comm.h"

struct endpoint {
    char host[80]; /* without the brackets of an IPv6 address */
    char port[8];
    char name[32]; /* "" without one */
};

struct comm_listener {
    int tcp_fd;
    int unix_fd;
    char endpoint[COMM_ENDPOINT_BYTES];
};

int endpoint_parse(const char *text, struct endpoint *ret, struct error *err);

/* Start to connect. *ret_fd becomes writable when the result is known (SO_ERROR). 0 or a positive
 * errno; ECONNREFUSED and EAGAIN are worth another attempt. */
int endpoint_dial(const struct endpoint *endpoint, bool by_name, int *ret_fd);

/* True if accept failed with this errno because descriptors or memory ran out. The connection then
 * stays in the queue, so polling for it would not wait. ENDPOINT_STARVED is the text for messages.
 */
bool endpoint_starved(int error);
#define ENDPOINT_STARVED                                                                           \
    ": connections wait for which there are no more file descriptors (ulimit -n)"

/* Listen on host:port, port 0 for any. */
int endpoint_listen_tcp(const char *host, int port, int *ret_fd, struct error *err);

#endif
