/* RPC addresses. Pure.
 *
 * People write tcp://host:port (host a name, a number or [IPv6]) or ipc:///path; over tcp Muster
 * always uses TLS. The transport has its own form of addresses:
 *
 *       tls+tcp://host:port?key=FILE             to listen: the file of the server's key
 *       tls+tcp://host:port?pin=PIN[,PIN][&key=FILE]   to dial: keys to accept, and a key to prove
 *       (in FILE, '&' and '%' are written %26 and %25)
 *       tcp://host:port                          without TLS: tests and simulation only
 */
#ifndef ENV_NET_URL_H
#define ENV_NET_URL_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/env/net.h"

/* The part of "tcp://..." or "ipc://..." after the scheme; NULL for others. */
const char *net_url_tcp(const char *url);
const char *net_url_path(const char *url);

/* Split "host:port" or "[host]:port"; false if it is neither. */
bool net_url_split(const char *text, char host[NET_URL_MAX], char port[NET_URL_MAX]);

/* Check an address from a person, to serve at or to connect to. E_INVALID_ARGUMENT. */
int net_url_check(const char *url, struct error *err);

enum { NET_ADDRESS_MAX = 1024, NET_KEY_PATH_MAX = 512, NET_PINS_TEXT_MAX = 180 };

struct net_address {       /* an address for the transport */
    char url[NET_URL_MAX]; /* tcp:// or ipc:// */
    bool tls;
    char key[NET_KEY_PATH_MAX];   /* "" = none */
    char pins[NET_PINS_TEXT_MAX]; /* "" = none */
};

int net_address_parse(const char *text, struct net_address *ret, struct error *err);

/* The transport's address of a person's: tcp:// becomes tls+tcp:// with `key` and `pins` (NULL or
 * "" = none), ipc:// stays. E_INVALID_ARGUMENT if it is too long. */
int net_address_secure(const char *url, const char *key, const char *pins,
                       char ret[NET_ADDRESS_MAX], struct error *err);

/* The person's address of the transport's: without its query and "tls+". */
void net_address_plain(const char *address, char ret[NET_URL_MAX]);

#endif
