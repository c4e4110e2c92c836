/* A TLS dialer's record of its calls: their frames, until those are sent. */
#include <stdlib.h>

#include "common/env/net_sp.h"
#include "common/env/net_tls_dialer_internal.h"

static struct tls_dialer *dialer_of(struct net_calls *calls)
{
    return list_entry(calls, struct tls_dialer, calls);
}

static bool is_connected(struct net_calls *calls)
{
    return dialer_of(calls)->state == CONNECTED;
}

static bool was_sent(const struct net_call *call)
{
    return ((const struct tls_call *)call)->sent;
}

static void withdraw(struct net_call *call)
{
    struct tls_call *it = (struct tls_call *)call;
    list_remove(&it->link);
    buf_fini(&it->frame);
}

static void release(struct net_call *call)
{
    free(call);
}

static void cut(struct net_calls *calls)
{
    tls_dialer_lost(dialer_of(calls));
}

const struct net_calls_owner tls_calls_owner = {
    .connected = is_connected,
    .sent = was_sent,
    .withdraw = withdraw,
    .release = release,
    .cut = cut,
};

static bool is_lost(const struct net_call *call, uint64_t connection)
{
    (void)connection;
    return was_sent(call);
}

void tls_calls_lost(struct tls_dialer *d)
{
    net_calls_lose(&d->calls, is_lost, 0);
}

static int fill_frame(struct tls_call *call, const void *bytes, size_t size)
{
    uint8_t head[SP_HEAD_MAX_BYTES];
    uint32_t number = call->call.id;
    uint8_t id[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                    (uint8_t)number};
    size_t head_bytes = sp_head(sizeof(id) + size, false, head);
    buf_init(&call->frame, SP_HEAD_MAX_BYTES + sizeof(id) + NET_MESSAGE_MAX_BYTES);
    (void)buf_append(&call->frame, head, head_bytes);
    (void)buf_append(&call->frame, id, sizeof(id));
    (void)buf_append(&call->frame, bytes, size);
    return buf_failed(&call->frame) ? E_RESOURCE_EXHAUSTED : 0;
}

int tls_dialer_call(struct tls_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    struct net_call_how how = {timeout_ms, on_answer, arg};
    int rc = net_calls_check(&d->calls, size, err);
    if (rc != 0)
        return rc;
    struct tls_call *call = calloc(1, sizeof(*call));
    if (call) {
        list_init(&call->link);
        call->call.id = net_calls_number(&d->calls);
    }
    if (!call || fill_frame(call, bytes, size) != 0 ||
        net_calls_add(&d->calls, &call->call, &how) != 0) {
        if (call)
            buf_fini(&call->frame);
        free(call);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", size);
    }
    list_push_back(&d->queue, &call->link);
    if (d->state == CONNECTED && !tls_dialer_send_queue(d))
        tls_dialer_send_soon(d);
    return 0;
}
