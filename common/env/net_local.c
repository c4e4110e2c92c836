#include <stdlib.h>

#include "common/env/net_nng_internal.h"
#include "common/env/net_os.h"
#include "common/env/net_url.h"

struct net_dialer {
    struct nng_dialing *nng;
};

static int local_dial(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    struct net_address address;
    int rc = net_address_parse(url, &address, err);
    if (!rc && address.tls)
        rc = error_set(err, E_UNIMPLEMENTED, "%s is not of this machine", url);
    if (rc)
        return rc;
    struct net_dialer *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to connect to %s", url);
    rc = nng_dialing_new(self, address.url, &d->nng, err);
    if (rc)
        free(d);
    else
        *ret = d;
    return rc;
}

static int net_call(struct net_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    return nng_dialing_call(d->nng, bytes, size, timeout_ms, on_answer, arg, err);
}

/* The last that is done with a dialer. */
static void local_close(struct net_dialer *d)
{
    nng_dialing_close(d->nng);
    free(d);
}

int net_local_init(struct net *ret, struct loop *loop, struct error *err)
{
    struct net_nng *nng = net_nng_new(loop);
    if (!nng)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the network");
    *ret = (struct net){
        .self = nng, .dial = local_dial, .call = net_call, .close_dialer = local_close};
    return 0;
}

void net_local_fini(struct net *net)
{
    net_nng_free(net->self);
    *net = (struct net){0};
}
