/* The listening socket of a tcp:// or ipc:// url. */
#ifndef ENV_NET_BIND_H
#define ENV_NET_BIND_H

#include "common/base/error.h"
#include "common/env/net.h"

/* "tcp://host:port" (host a name, a number, [IPv6], * or nothing for all; port 0 takes a free one)
 * or "ipc:///path" (only for this user; what is left of a program that died is replaced). `ret_url`
 * has the port it got. The descriptor, close-on-exec and non-blocking, is the caller's. A socket of
 * this address that systemd handed over (sd_listen_fds(3)) is taken instead of a new one. */
int net_bind(const char *url, int *ret_fd, char ret_url[NET_URL_MAX], struct error *err);

/* The path of an ipc:// url to remove when nobody listens there any more, NULL for others. */
const char *net_bind_path(const char *url);

#endif
