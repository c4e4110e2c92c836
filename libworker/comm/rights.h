/* File descriptors sent with bytes over a unix socket (SCM_RIGHTS, unix(7)). They arrive
 * close-on-exec and belong to the receiver. Neither call blocks. Any thread. */
#ifndef COMM_RIGHTS_H
#define COMM_RIGHTS_H

#include <sys/types.h>

enum { RIGHTS_MAX = 3 };

/* As send(2), with fds[count] beside the first byte; count is 1 … RIGHTS_MAX. */
ssize_t rights_send(int socket, const void *data, size_t bytes, const int *fds, int count);

/* As recv(2). Received descriptors are written to ret_fds[most] in order, with -1 after the last.
 * Descriptors beyond `most` are closed. */
ssize_t rights_recv(int socket, void *data, size_t bytes, int *ret_fds, int most);

#endif
