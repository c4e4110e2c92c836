#include "common/env/net_url.h"

#include <string.h>

#include "common/base/str.h"

static const char *after_scheme(const char *scheme, const char *url)
{
    return str_starts(url, scheme) ? url + strlen(scheme) : NULL;
}

const char *net_url_tcp(const char *url)
{
    return after_scheme("tcp://", url);
}

const char *net_url_path(const char *url)
{
    return after_scheme("ipc://", url);
}

/* Only digits and in range: the resolver reads a larger number as another port. */
static bool is_port(const char *digits)
{
    digits += strspn(digits, "0");
    size_t length = strlen(digits);
    return length < 5 || (length == 5 && strcmp(digits, "65535") <= 0);
}

bool net_url_split(const char *text, char host[NET_URL_MAX], char port[NET_URL_MAX])
{
    const char *colon = strrchr(text, ':');
    if (strlen(text) >= NET_URL_MAX || !colon || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || !is_port(colon + 1))
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

static const char tls_prefix[] = "tls+";

int net_url_check(const char *url, struct error *err)
{
    if (str_starts(url, tls_prefix)) {
        error_set(err, E_INVALID_ARGUMENT, "%.200s: write tcp://, which is encrypted always", url);
        return E_INVALID_ARGUMENT;
    }
    char host[NET_URL_MAX], port[NET_URL_MAX];
    const char *tcp = net_url_tcp(url);
    if (tcp ? net_url_split(tcp, host, port) : net_url_path(url) != NULL)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "\"%.200s\" is no address", url);
    error_hint(err, "write tcp://host:port or ipc:///path");
    return E_INVALID_ARGUMENT;
}

/* A path may contain the separators of a query, and '%'. */
static const char escaped[] = "&%", hex_digits[] = "0123456789ABCDEF";

static int escape_path(const char *path, char ret[NET_ADDRESS_MAX])
{
    size_t at = 0;
    for (const char *c = path; *c; c++) {
        if (at + 4 > NET_ADDRESS_MAX)
            return E_INVALID_ARGUMENT;
        if (!strchr(escaped, *c)) {
            ret[at++] = *c;
            continue;
        }
        ret[at++] = '%';
        ret[at++] = hex_digits[*c >> 4];
        ret[at++] = hex_digits[*c & 15];
    }
    ret[at] = '\0';
    return 0;
}

static void unescape_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from; from++) {
        const char *high = from[0] == '%' && from[1] ? strchr(hex_digits, from[1]) : NULL;
        const char *low = high && from[2] ? strchr(hex_digits, from[2]) : NULL;
        *to++ = low ? (char)((high - hex_digits) << 4 | (low - hex_digits)) : *from;
        from += low ? 2 : 0;
    }
    *to = '\0';
}

static int set_query(struct str part, struct net_address *ret)
{
    const struct {
        const char *key;
        char *value;
        size_t size;
    } keys[] = {{"key=", ret->key, sizeof(ret->key)}, {"pin=", ret->pins, sizeof(ret->pins)}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t skip = strlen(keys[i].key);
        if (part.size <= skip || part.size - skip >= keys[i].size ||
            memcmp(part.data, keys[i].key, skip) != 0)
            continue;
        memcpy(keys[i].value, part.data + skip, part.size - skip);
        return 0;
    }
    return E_INVALID_ARGUMENT;
}

int net_address_parse(const char *text, struct net_address *ret, struct error *err)
{
    struct net_address address = {.tls = str_starts(text, tls_prefix)};
    const char *url = text + (address.tls ? strlen(tls_prefix) : 0);
    if (!net_url_tcp(url) && (address.tls || !net_url_path(url))) {
        error_set(err, E_INVALID_ARGUMENT, "\"%.200s\" is no address", text);
        error_hint(err, "write tcp://host:port or ipc:///path");
        return E_INVALID_ARGUMENT;
    }
    const char *query = strchr(url, '?');
    size_t length = query ? (size_t)(query - url) : strlen(url);
    if (length >= sizeof(address.url))
        return error_set(err, E_INVALID_ARGUMENT, "the address is longer than %d bytes",
                         NET_URL_MAX - 1);
    memcpy(address.url, url, length);
    struct str rest = str_of(query ? query + 1 : ""), part;
    while (str_next(&rest, '&', &part))
        if (set_query(part, &address))
            return error_set(err, E_INVALID_ARGUMENT,
                             "\"%.*s\" in an address: key=FILE or pin=PIN is understood",
                             (int)part.size, part.data);
    unescape_path(address.key);
    *ret = address;
    return 0;
}

int net_address_secure(const char *url, const char *key, const char *pins,
                       char ret[NET_ADDRESS_MAX], struct error *err)
{
    if (!net_url_tcp(url))
        return str_copy(ret, NET_ADDRESS_MAX, url);
    bool has_key = key && *key, has_pins = pins && *pins;
    char path[NET_ADDRESS_MAX] = "";
    int rc = has_key ? escape_path(key, path) : 0;
    if (!rc)
        rc = str_printf(ret, NET_ADDRESS_MAX, "%s%s%s%s%s%s%s%s", tls_prefix, url,
                        has_key || has_pins ? "?" : "", has_key ? "key=" : "", path,
                        has_key && has_pins ? "&" : "", has_pins ? "pin=" : "",
                        has_pins ? pins : "");
    if (rc)
        return error_set(err, E_INVALID_ARGUMENT,
                         "the address with its keys is longer than "
                         "%d bytes",
                         NET_ADDRESS_MAX - 1);
    return 0;
}

void net_address_plain(const char *address, char ret[NET_URL_MAX])
{
    const char *url = str_starts(address, tls_prefix) ? address + strlen(tls_prefix) : address;
    size_t length = strcspn(url, "?");
    length = length < NET_URL_MAX ? length : NET_URL_MAX - 1;
    memcpy(ret, url, length);
    ret[length] = '\0';
}
