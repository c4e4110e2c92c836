#include "agent/supervisor/port_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

enum { LINE_BYTES = 512, ADDRESS_BYTES = 33, LISTENS = 0x0a /* TCP_LISTEN */ };

/* The kernel prefers an exact address to any address, and IPv4 to IPv6. */
enum preference { NEVER, ANY_IPV6, ANY_IPV4, MAPPED, EXACT };

struct found {
    enum preference by;
    uid_t user;
};

/* Addresses are words in network order, printed as numbers of this machine. */
static enum preference preference_of(const char *address)
{
    char exact[ADDRESS_BYTES], mapped[ADDRESS_BYTES];
    (void)str_printf(exact, sizeof(exact), "%08X", htonl(INADDR_LOOPBACK));
    (void)str_printf(mapped, sizeof(mapped), "%016X%08X%s", 0, htonl(0xffff), exact);
    if (strcmp(address, exact) == 0)
        return EXACT;
    if (strcmp(address, mapped) == 0)
        return MAPPED;
    if (strcmp(address, "00000000") == 0)
        return ANY_IPV4;
    return strspn(address, "0") == ADDRESS_BYTES - 1 ? ANY_IPV6 : NEVER;
}

enum column { LOCAL = 1, STATE = 3, USER = 7 }; /* separated by spaces */

static const char *column_of(const char *line, enum column column)
{
    line += strspn(line, " ");
    for (int i = 0; i < (int)column; i++) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

/* False after the last socket that listens: the table has those first. */
static bool read_socket(const char *line, uint16_t port, struct found *found)
{
    char address[ADDRESS_BYTES] = "";
    const char *local = column_of(line, LOCAL);
    size_t size = strcspn(local, ":");
    if (size >= sizeof(address) || local[size] != ':')
        return true; /* the head */
    memcpy(address, local, size);
    bool listens = strtoul(column_of(line, STATE), NULL, 16) == LISTENS;
    bool is_port = strtoul(local + size + 1, NULL, 16) == port;
    enum preference by = listens && is_port ? preference_of(address) : NEVER;
    if (by > found->by)
        *found = (struct found){by, (uid_t)strtoul(column_of(line, USER), NULL, 10)};
    return listens;
}

static int read_table(const char *path, uint16_t port, struct found *found, struct error *err)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    if (!file)
        return error_errno(err, errno, "%s", path);
    while (fgets(line, sizeof(line), file) && read_socket(line, port, found))
        continue;
    (void)fclose(file);
    return 0;
}

int port_owner(uint16_t port, uid_t *ret, struct error *err)
{
    struct found found = {.by = NEVER};
    int rc = read_table("/proc/net/tcp", port, &found, err);
    if (!rc)
        rc = read_table("/proc/net/tcp6", port, &found, err);
    if (rc && rc != E_NOT_FOUND) /* a machine without IPv6 lacks the second */
        return rc;
    if (found.by == NEVER)
        return error_set(err, E_NOT_FOUND, "no program listens on port %u", port);
    *ret = found.user;
    return 0;
}
