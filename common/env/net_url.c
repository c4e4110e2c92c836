#include "common/env/net_url.h"

#include <string.h>

#include "common/base/str.h"

static const char *behind(const char *scheme, const char *url)
{
    return str_starts(url, scheme) ? url + strlen(scheme) : NULL;
}

const char *net_url_tcp(const char *url)
{
    return behind("tcp://", url);
}

const char *net_url_path(const char *url)
{
    return behind("ipc://", url);
}

bool net_url_split(const char *text, char host[NET_URL_MAX], char port[NET_URL_MAX])
{
    const char *colon = strrchr(text, ':');
    if (strlen(text) >= NET_URL_MAX || !colon || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    (void)str_copy(port, NET_URL_MAX, colon + 1);
    size_t length = (size_t)(colon - text);
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (bracketed) {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    return bracketed || !strchr(host, ':');
}

int net_url_check(const char *url, struct error *err)
{
    if (str_starts(url, "tls+tcp://")) {
        error_set(err, E_INVALID_ARGUMENT, "%.200s: TLS on the RPC address does not work yet", url);
        error_hint(err, "write tcp://host:port, on loopback or inside a private network or tunnel");
        return E_INVALID_ARGUMENT;
    }
    if (net_url_tcp(url) || net_url_path(url))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "\"%.200s\" is no address", url);
    error_hint(err, "write tcp://host:port or ipc:///path");
    return E_INVALID_ARGUMENT;
}
