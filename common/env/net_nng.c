/* The way from NNG's threads to the loop. */
#include "common/env/net_nng_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/loop/loop.h"

static void inbox_drain(void *arg)
{
    struct net_nng *net = arg;
    struct list batch;
    list_init(&batch);
    pthread_mutex_lock(&net->lock);
    list_splice_back(&batch, &net->inbox);
    net->waking = false;
    pthread_mutex_unlock(&net->lock);
    struct net_event *it;
    while ((it = list_first(&batch, struct net_event, link))) {
        list_remove(&it->link);
        it->handle(it);
    }
}

/* Any thread. The post is made under the lock so that none can follow net_nng_fini. */
void net_nng_push(struct net_nng *net, struct net_event *it)
{
    pthread_mutex_lock(&net->lock);
    list_push_back(&net->inbox, &it->link);
    if (!net->waking && !net->silenced) {
        net->waking = true;
        loop_post(net->loop, inbox_drain, net);
    }
    pthread_mutex_unlock(&net->lock);
}

static int code_of_nng(int rv)
{
    switch (rv) {
    case 0:
        return 0;
    case NNG_ENOMEM:
    case NNG_ENOFILES:
        return E_RESOURCE_EXHAUSTED;
    case NNG_EADDRINUSE:
        return E_ALREADY_EXISTS;
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
        return E_INVALID_ARGUMENT;
    case NNG_EPERM:
        return E_PERMISSION_DENIED;
    case NNG_ENOTSUP:
        return E_UNIMPLEMENTED;
    default:
        return E_UNAVAILABLE;
    }
}

int net_nng_fail(struct error *err, int rv, const char *what, const char *url)
{
    return error_set(err, code_of_nng(rv), "%s %s: %s", what, url, nng_strerror(rv));
}

struct net_nng *net_nng_new(struct loop *loop)
{
    struct net_nng *net = calloc(1, sizeof(*net));
    if (!net)
        return NULL;
    net_nng_mend_epipe();
    net->loop = loop;
    pthread_mutex_init(&net->lock, NULL);
    list_init(&net->inbox);
    return net;
}

void net_nng_free(struct net_nng *net)
{
    if (!net)
        return;
    pthread_mutex_lock(&net->lock);
    net->silenced = true;
    pthread_mutex_unlock(&net->lock);
    if (net->used)
        return; /* NNG may call back for ever */
    pthread_mutex_destroy(&net->lock);
    free(net);
}
