#include "agent/place.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/name.h"
#include "common/base/sha256.h"
#include "common/base/str.h"
#include "common/env/net_url.h"
#include "common/env/paths.h"

enum { HOST_BYTES = 256, ENVIRONMENT_ROWS = 32 };

int place_name(char ret[NAME_LENGTH_MAX + 1], struct error *err)
{
    char host[HOST_BYTES];
    size_t at = 0;
    if (gethostname(host, sizeof(host)))
        return error_errno(err, errno, "host name");
    host[sizeof(host) - 1] = '\0';
    for (const char *c = host; *c && *c != '.' && at < NAME_LENGTH_MAX; c++) {
        char lower = (char)tolower((unsigned char)*c);
        if (isalnum((unsigned char)lower) || (at > 0 && lower == '-'))
            ret[at++] = lower;
    }
    ret[at] = '\0';
    return at ? 0 : error_set(err, E_INVALID_ARGUMENT, "this host has no usable name: use --name");
}

/* It may be in /tmp, where another user can create it first: it must be ours and not a link. */
static int make_dir(const char *path, mode_t mode, struct error *err)
{
    struct stat folder;
    if (mkdir(path, mode) && errno != EEXIST)
        return error_errno(err, errno, "folder %s", path);
    if (lstat(path, &folder) || !S_ISDIR(folder.st_mode) || folder.st_uid != geteuid())
        return error_set(err, E_FAILED_PRECONDITION, "%s is not a folder of this user's", path);
    return chmod(path, mode) ? error_errno(err, errno, "folder %s", path) : 0;
}

int place_hub_url(const char *dir, bool other_user, char *ret, size_t size, struct error *err)
{
    static const char name[] = "/hub.sock";
    char runtime[PLACE_SOCKET_MAX], hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    if (!other_user && strlen(dir) + sizeof(name) <= PLACE_SOCKET_MAX)
        return str_printf(ret, size, "ipc://%s%s", dir, name);
    int rc = other_user ? str_copy(runtime, sizeof(runtime), "/run/muster")
                        : paths_runtime_dir(runtime, sizeof(runtime), err);
    if (!rc)
        rc = make_dir(runtime, other_user ? 0711 : 0700, err);
    if (rc)
        return rc;
    sha256(dir, strlen(dir), digest);
    sha256_hex(digest, hex);
    rc = str_printf(ret, size, "ipc://%s/%.16s.sock", runtime, hex);
    if (rc)
        return error_set(err, rc, "runtime folder %s is too long for a socket", runtime);
    return 0;
}

void place_report_prefix(const char *hub_url, char ret[PLACE_SOCKET_MAX])
{
    const char *path = hub_url + strlen("ipc://");
    int length = (int)(strlen(path) - strlen(".sock"));
    (void)str_printf(ret, PLACE_SOCKET_MAX, "%.*s-", length, path);
}

/* Connecting a datagram socket sends nothing; it only asks the routing table. */
static int route_to(const struct addrinfo *to, char *ret, size_t size)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return E_UNAVAILABLE;
    int rc = connect(fd, to->ai_addr, to->ai_addrlen) ||
                     getsockname(fd, (struct sockaddr *)&own, &length) ||
                     getnameinfo((struct sockaddr *)&own, length, ret, (socklen_t)size, NULL, 0,
                                 NI_NUMERICHOST)
                 ? E_UNAVAILABLE
                 : 0;
    close(fd);
    return rc;
}

int place_address(const char *coordinator_url, char *ret, size_t size, struct error *err)
{
    char host[NET_URL_MAX], port[NET_URL_MAX];
    struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_DGRAM};
    const char *text = net_url_tcp(coordinator_url);
    if (!text || !net_url_split(text, host, port))
        return str_copy(ret, size, "127.0.0.1");
    int problem = getaddrinfo(host, port, &hints, &list);
    if (problem)
        return error_set(err, E_UNAVAILABLE, "%s: %s", host, gai_strerror(problem));
    int rc = E_UNAVAILABLE;
    for (const struct addrinfo *to = list; to && rc; to = to->ai_next)
        rc = route_to(to, ret, size);
    freeaddrinfo(list);
    if (rc)
        return error_set(err, rc, "no route to %s: use --address", host);
    return 0;
}

static bool is_at(const struct sockaddr *own, const char *address)
{
    char text[NI_MAXHOST];
    if (!own || (own->sa_family != AF_INET && own->sa_family != AF_INET6))
        return false;
    socklen_t length =
        own->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return getnameinfo(own, length, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0 &&
           strcmp(text, address) == 0;
}

void place_interface(const char *address, char ret[PLACE_INTERFACE_BYTES])
{
    struct ifaddrs *all = NULL;
    ret[0] = '\0';
    if (getifaddrs(&all))
        return;
    for (const struct ifaddrs *one = all; one && !ret[0]; one = one->ifa_next)
        if (is_at(one->ifa_addr, address))
            (void)str_copy(ret, PLACE_INTERFACE_BYTES, one->ifa_name);
    freeifaddrs(all);
}

static const char *pair(struct arena *arena, const char *name, const char *value)
{
    return value ? arena_printf(arena, "%s=%s", name, value) : NULL;
}

const char *const *place_environment(bool other_user, struct arena *arena)
{
    static const char *const always[] = {"PATH", "LANG", "LC_ALL", "TZ", NULL};
    static const char *const own[] = {
        "HOME",       "USER",        "LOGNAME",      "SHELL", "TMPDIR", "LD_LIBRARY_PATH",
        "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", NULL};
    const char **rows = arena_array(arena, ENVIRONMENT_ROWS, sizeof(*rows));
    int count = 0;
    if (!rows)
        return NULL;
    for (const char *const *name = always; *name; name++)
        if ((rows[count] = pair(arena, *name, getenv(*name))))
            count++;
    if (other_user)
        return rows;
    for (const char *const *name = own; *name; name++)
        if ((rows[count] = pair(arena, *name, getenv(*name))))
            count++;
    return rows;
}

int place_check_name(const char *name, struct error *err)
{
    if (name && name_valid(name))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "\"%s\" is no name for a node", name ? name : "");
    error_hint(err, "1 to %d of a-z, 0-9, '-' and '.', starting with a letter or digit",
               NAME_LENGTH_MAX);
    return E_INVALID_ARGUMENT;
}
