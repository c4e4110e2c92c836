#include "common/env/net_lookup.h"

#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/str.h"
#include "common/env/net.h"
#include "common/loop/loop.h"

struct net_lookup {         /* outlives its user */
    net_lookup_fn on_found; /* NULL: cancelled */
    void *arg;
    char host[NET_URL_MAX], port[NET_URL_MAX];
    int failed;
    struct addrinfo *found;
};

static void look_up(void *arg) /* beside the loop */
{
    struct net_lookup *it = arg;
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    it->failed = getaddrinfo(it->host, it->port, &wanted, &it->found);
}

static void looked_up(void *arg)
{
    struct net_lookup *it = arg;
    if (it->on_found)
        it->on_found(it->arg, it->failed, it->failed ? NULL : it->found);
    else if (!it->failed)
        freeaddrinfo(it->found);
    free(it);
}

struct net_lookup *net_lookup_start(struct loop *loop, const char *host, const char *port,
                                    net_lookup_fn on_found, void *arg)
{
    struct net_lookup *it = calloc(1, sizeof(*it));
    if (!it)
        return NULL;
    it->on_found = on_found;
    it->arg = arg;
    (void)str_copy(it->host, sizeof(it->host), host);
    (void)str_copy(it->port, sizeof(it->port), port);
    loop_offload(loop, look_up, looked_up, it);
    return it;
}

void net_lookup_cancel(struct net_lookup *lookup)
{
    if (lookup)
        lookup->on_found = NULL;
}
