#include "coordinator/daemon/own_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/str.h"

/* One place is for the certificate's own name, one ends the list. */
static void add_name(struct own_names *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->texts[i], name) == 0)
            return;
    if (names->count >= TLS_NAMES_MAX - 2 || !name[0] ||
        str_copy(names->texts[names->count], TLS_NAME_MAX, name))
        return;
    names->all[names->count] = names->texts[names->count];
    names->all[++names->count] = NULL;
}

static void add_address(struct own_names *names, const struct sockaddr *address)
{
    char text[INET6_ADDRSTRLEN];
    const void *bytes = NULL;
    if (address->sa_family == AF_INET) {
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *six =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        if (!IN6_IS_ADDR_LINKLOCAL(six)) /* browsers do not use it */
            bytes = six;
    }
    if (bytes && inet_ntop(address->sa_family, bytes, text, sizeof(text)))
        add_name(names, text);
}

static void add_interfaces(struct own_names *names)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr)
            add_address(names, one->ifa_addr);
    freeifaddrs(all);
}

void own_names_collect(const char *host, const char *const *more, struct own_names *ret)
{
    char own[TLS_NAME_MAX] = "";
    *ret = (struct own_names){0};
    add_name(ret, "localhost");
    add_name(ret, "127.0.0.1");
    add_name(ret, "::1");
    (void)gethostname(own, sizeof(own) - 1);
    add_name(ret, own);
    for (int i = 0; more[i]; i++)
        add_name(ret, more[i]);
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        add_interfaces(ret);
    else
        add_name(ret, host);
}
