#include "coordinator/api_rest/http_address.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"

static int bad_address(const char *text, struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT, "'%.80s' is no address to listen on", text);
    error_hint(err, "an IP address and a port: 127.0.0.1:7480, [::1]:7480, 0.0.0.0:0");
    return E_INVALID_ARGUMENT;
}

int http_address_parse(const char *text, struct http_address *ret, struct error *err)
{
    const char *colon = strrchr(text, ':');
    int64_t port;
    *ret = (struct http_address){0};
    if (!colon || (size_t)(colon - text) >= sizeof(ret->host) ||
        parse_i64(colon + 1, 0, UINT16_MAX, &port, NULL))
        return bad_address(text, err);
    memcpy(ret->host, text, (size_t)(colon - text));
    if (strcmp(ret->host, "localhost") == 0)
        (void)str_copy(ret->host, sizeof(ret->host), "127.0.0.1");
    size_t size = strlen(ret->host);
    if (size > 2 && ret->host[0] == '[' && ret->host[size - 1] == ']') {
        ret->host[size - 1] = 0;
        memmove(ret->host, ret->host + 1, size - 1);
        ret->is_v6 = true;
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons((uint16_t)port);
        if (inet_pton(AF_INET6, ret->host, &ret->v6.sin6_addr) != 1)
            return bad_address(text, err);
        ret->is_loopback = IN6_IS_ADDR_LOOPBACK(&ret->v6.sin6_addr);
        return 0;
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, ret->host, &ret->v4.sin_addr) != 1)
        return bad_address(text, err);
    ret->is_loopback = ntohl(ret->v4.sin_addr.s_addr) >> 24 == 127;
    return 0;
}
