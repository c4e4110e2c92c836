/* "HOST:PORT" as a socket address. Pure. */
#ifndef API_REST_HTTP_ADDRESS_H
#define API_REST_HTTP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

#include "common/base/error.h"

struct http_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    bool is_v6, is_loopback;
    char host[64];
};

/* E_INVALID_ARGUMENT with an example of one. */
int http_address_parse(const char *text, struct http_address *ret, struct error *err);

#endif
