#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/ranked.h"

static const char *lookup(void *arg, const char *name)
{
    const struct ranked *ranked = arg;
    if (strcmp(name, "RANK") == 0)
        return ranked->rank;
    if (strcmp(name, "WORLD_SIZE") == 0)
        return ranked->world;
    if (strcmp(name, "MASTER_PORT") == 0)
        return ranked->port;
    return strcmp(name, "MASTER_ADDR") == 0 ? "127.0.0.1" : NULL;
}

void ranked_init(struct ranked *ret, int rank, int world, int port)
{
    snprintf(ret->rank, sizeof(ret->rank), "%d", rank);
    snprintf(ret->world, sizeof(ret->world), "%d", world);
    snprintf(ret->port, sizeof(ret->port), "%d", port);
    ret->environment = (struct environment){lookup, ret};
}

int ranked_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&at, size) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    close(fd);
    return ntohs(at.sin_port);
}
