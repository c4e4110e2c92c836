/* The listening socket of a tcp:// or ipc:// url. */
#ifndef ENV_NET_BIND_H
#define ENV_NET_BIND_H

#include "common/base/error.h"
#include "common/env/net.h"

/* "tcp://host:port": host is a name, a number, [IPv6], * or nothing for all; port 0 is a free one.
 * "ipc:///path": only for this user; the socket of a program that died is replaced. `ret_url`
 * has the actual port. The caller owns the descriptor, which is close-on-exec and non-blocking. If
 * systemd passed a socket of this address (sd_listen_fds(3)), it is used instead of a new one. */
int net_bind(const char *url, int *ret_fd, char ret_url[NET_URL_MAX], struct error *err);

/* The path of an ipc:// url to remove when its listener has ended, NULL for others. */
const char *net_bind_path(const char *url);

#endif
