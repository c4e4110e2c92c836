#include "common/env/net_nng.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/env/net_nng_internal.h"
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
    struct happening *it;
    while ((it = list_first(&batch, struct happening, link))) {
        list_remove(&it->link);
        it->handle(it);
    }
}

/* Any thread. The post is made under the lock so that none can follow net_nng_fini. */
void net_nng_push(struct net_nng *net, struct happening *it)
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

static int set_query(struct str part, struct net_nng_address *ret)
{
    const struct {
        const char *key;
        char *value;
    } keys[] = {{"ca=", ret->ca}, {"cert=", ret->cert}, {"name=", ret->name}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t skip = strlen(keys[i].key);
        if (part.size <= skip || part.size - skip >= TLS_FILE_MAX ||
            memcmp(part.data, keys[i].key, skip) != 0)
            continue;
        memcpy(keys[i].value, part.data + skip, part.size - skip);
        return 0;
    }
    return E_INVALID_ARGUMENT;
}

int net_nng_address_parse(const char *text, struct net_nng_address *ret, struct error *err)
{
    if (!str_starts(text, "tcp://") && !str_starts(text, "tls+tcp://") &&
        !str_starts(text, "ipc://")) {
        error_set(err, E_INVALID_ARGUMENT, "\"%.200s\" is no address", text);
        error_hint(err, "write tcp://host:port or ipc:///path");
        return E_INVALID_ARGUMENT;
    }
    memset(ret, 0, sizeof(*ret));
    const char *query = strchr(text, '?');
    size_t length = query ? (size_t)(query - text) : strlen(text);
    if (length >= sizeof(ret->url))
        return error_set(err, E_INVALID_ARGUMENT, "the address is longer than %d bytes",
                         NET_URL_MAX - 1);
    memcpy(ret->url, text, length);
    struct str rest = str_of(query ? query + 1 : ""), part;
    while (str_next(&rest, '&', &part))
        if (set_query(part, ret) != 0)
            return error_set(
                err, E_INVALID_ARGUMENT,
                "\"%.*s\" in an address: ca=FILE, cert=FILE or name=NAME is understood",
                (int)part.size, part.data);
    return 0;
}

static int net_listen(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                      net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err)
{
    insist(on_request && max_in_flight > 0);
    struct net_nng *net = self;
    struct net_nng_address address;
    struct net_service service = {max_in_flight, on_request, on_gone, arg};
    int rc = net_nng_address_parse(url, &address, err);
    if (rc != 0)
        return rc;
    struct net_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", url);
    if (str_starts(address.url, "tls+"))
        rc = nng_listening_new(net, &address, &service, &l->nng, err);
    else
        rc = sp_listener_new(net->loop, address.url, &service, &l->sp, err);
    if (rc != 0) {
        free(l);
        return rc;
    }
    list_push_back(&net->listeners, &l->link);
    *ret = l;
    return 0;
}

static const char *listener_url(struct net_listener *l)
{
    return l->sp ? sp_listener_url(l->sp) : nng_listening_url(l->nng);
}

static void answer(struct net_listener *l, uint64_t request, const void *bytes, size_t size)
{
    if (l->sp)
        sp_listener_answer(l->sp, request, bytes, size);
    else
        nng_listening_answer(l->nng, request, bytes, size);
}

static void peer_name(struct net_listener *l, uint64_t peer, char ret[NET_PEER_NAME_MAX])
{
    if (l->sp)
        sp_listener_peer_name(l->sp, peer, ret);
    else
        nng_listening_peer_name(l->nng, peer, ret);
}

static void close_listener(struct net_listener *l)
{
    if (l->sp)
        sp_listener_close(l->sp);
    else
        nng_listening_close(l->nng);
}

int net_nng_init(struct net *ret, struct loop *loop, struct error *err)
{
    struct net_nng *net = calloc(1, sizeof(*net));
    if (!net)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the network");
    net_nng_mend_epipe();
    net->loop = loop;
    pthread_mutex_init(&net->lock, NULL);
    list_init(&net->inbox);
    list_init(&net->listeners);
    *ret = (struct net){.self = net,
                        .listen = net_listen,
                        .listener_url = listener_url,
                        .answer = answer,
                        .peer_name = peer_name,
                        .close_listener = close_listener,
                        .dial = net_nng_dial,
                        .call = net_nng_call,
                        .close_dialer = net_nng_close_dialer};
    return 0;
}

void net_nng_fini(struct net *net)
{
    struct net_nng *self = net->self;
    if (!self)
        return;
    struct net_listener *l;
    while ((l = list_first(&self->listeners, struct net_listener, link))) {
        list_remove(&l->link);
        sp_listener_free(l->sp);
        if (l->nng)
            nng_listening_close(l->nng);
        free(l);
    }
    pthread_mutex_lock(&self->lock);
    self->silenced = true;
    pthread_mutex_unlock(&self->lock);
    if (!self->used) {
        pthread_mutex_destroy(&self->lock);
        free(self);
    }
    *net = (struct net){0};
}
