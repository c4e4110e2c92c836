#include "common/env/net_os.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/env/net_listener.h"
#include "common/env/net_nng_internal.h"
#include "common/env/net_tls_dialer.h"
#include "common/env/net_url.h"

struct net_os {
    struct loop *loop;
    struct net_nng *nng;
    struct list listeners, dialers;
};

struct net_listener {
    struct list link;
    struct sp_listener *sp;
};

struct net_dialer { /* one of the two */
    struct list link;
    struct nng_dialing *nng; /* tcp, ipc */
    struct tls_dialer *tls;
};

static int net_listen(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                      net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err)
{
    insist(on_request && max_in_flight > 0);
    struct net_os *net = self;
    struct net_address address;
    struct net_service service = {max_in_flight, on_request, on_gone, arg};
    int rc = net_address_parse(url, &address, err);
    if (rc)
        return rc;
    struct net_listener *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to listen at %s", url);
    rc = sp_listener_new(net->loop, &address, &service, &l->sp, err);
    if (rc) {
        free(l);
        return rc;
    }
    list_push_back(&net->listeners, &l->link);
    *ret = l;
    return 0;
}

static const char *listener_url(struct net_listener *l)
{
    return sp_listener_url(l->sp);
}

static void listener_answer(struct net_listener *l, uint64_t request, const void *bytes,
                            size_t size)
{
    sp_listener_answer(l->sp, request, bytes, size);
}

static void peer_name(struct net_listener *l, uint64_t peer, char ret[NET_PEER_NAME_MAX])
{
    sp_listener_peer_name(l->sp, peer, ret);
}

static void peer_key(struct net_listener *l, uint64_t peer, char ret[NET_PEER_KEY_MAX])
{
    sp_listener_peer_key(l->sp, peer, ret);
}

static void **peer_data(struct net_listener *l, uint64_t peer)
{
    return sp_listener_peer_data(l->sp, peer);
}

static void listener_classify(struct net_listener *l, uint64_t peer, enum net_standing standing,
                              uint64_t whose)
{
    sp_listener_classify(l->sp, peer, standing, whose);
}

static int64_t peer_uid(struct net_listener *l, uint64_t peer)
{
    return sp_listener_peer_uid(l->sp, peer);
}

static void close_listener(struct net_listener *l)
{
    sp_listener_close(l->sp);
}

static int net_dial(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    struct net_os *net = self;
    struct net_address address;
    int rc = net_address_parse(url, &address, err);
    if (rc)
        return rc;
    struct net_dialer *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to connect to %s", url);
    if (address.tls)
        rc = tls_dialer_new(net->loop, &address, &d->tls, err);
    else
        rc = nng_dialing_new(net->nng, address.url, &d->nng, err);
    if (rc) {
        free(d);
        return rc;
    }
    list_push_back(&net->dialers, &d->link);
    *ret = d;
    return 0;
}

static int net_call(struct net_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    if (d->tls)
        return tls_dialer_call(d->tls, bytes, size, timeout_ms, on_answer, arg, err);
    return nng_dialing_call(d->nng, bytes, size, timeout_ms, on_answer, arg, err);
}

static int dial_problem(struct net_dialer *d, struct error *ret)
{
    return d->tls ? tls_dialer_problem(d->tls, ret) : 0;
}

static void close_dialer(struct net_dialer *d)
{
    if (d->tls)
        tls_dialer_close(d->tls);
    else
        nng_dialing_close(d->nng);
}

int net_os_init(struct net *ret, struct loop *loop, struct error *err)
{
    struct net_os *net = calloc(1, sizeof(*net));
    if (net && !(net->nng = net_nng_new(loop))) {
        free(net);
        net = NULL;
    }
    if (!net)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the network");
    net->loop = loop;
    list_init(&net->listeners);
    list_init(&net->dialers);
    *ret = (struct net){.self = net,
                        .listen = net_listen,
                        .listener_url = listener_url,
                        .answer = listener_answer,
                        .peer_name = peer_name,
                        .peer_uid = peer_uid,
                        .classify = listener_classify,
                        .peer_key = peer_key,
                        .peer_data = peer_data,
                        .close_listener = close_listener,
                        .dial = net_dial,
                        .call = net_call,
                        .dial_problem = dial_problem,
                        .close_dialer = close_dialer};
    return 0;
}

void net_os_fini(struct net *net)
{
    struct net_os *self = net->self;
    struct net_listener *l;
    struct net_dialer *d;
    if (!self)
        return;
    while ((l = list_first(&self->listeners, struct net_listener, link))) {
        list_remove(&l->link);
        sp_listener_free(l->sp);
        free(l);
    }
    while ((d = list_first(&self->dialers, struct net_dialer, link))) {
        list_remove(&d->link);
        close_dialer(d);
        tls_dialer_free(d->tls);
        free(d);
    }
    net_nng_free(self->nng);
    free(self);
    *net = (struct net){0};
}
