/* RPC addresses as people write them: tcp://host:port (host a name, a number or [IPv6]) or
 * ipc:///path. Pure.
 */
#ifndef ENV_NET_URL_H
#define ENV_NET_URL_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/env/net.h"

/* What of "tcp://..." or "ipc://..." comes after the scheme; NULL for others. */
const char *net_url_tcp(const char *url);
const char *net_url_path(const char *url);

/* "host:port" or "[host]:port" apart; false if it is neither. */
bool net_url_split(const char *text, char host[NET_URL_MAX], char port[NET_URL_MAX]);

/* An address that a program was given to serve at or to connect to. Refuses tls+tcp://, which the
 * transport has but which no coordinator can be set up for. E_INVALID_ARGUMENT. */
int net_url_check(const char *url, struct error *err);

#endif
