#include "common/env/net_tls_calls.h"

#include <stdlib.h>

#include "common/env/net_sp.h"

bool tls_call_was_sent(const struct net_call *call)
{
    return ((const struct tls_call *)call)->sent;
}

void tls_call_withdraw(struct net_call *call)
{
    struct tls_call *it = (struct tls_call *)call;
    list_remove(&it->link);
    buf_fini(&it->frame);
}

void tls_call_release(struct net_call *call)
{
    free(call);
}

static bool is_lost(const struct net_call *call, uint64_t connection)
{
    (void)connection;
    return tls_call_was_sent(call);
}

void tls_calls_lose_sent(struct net_calls *calls)
{
    net_calls_lose(calls, is_lost, 0);
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

int tls_call_new(struct net_calls *calls, const void *bytes, size_t size,
                 const struct net_call_how *how, struct tls_call **ret, struct error *err)
{
    int rc = net_calls_check(calls, size, err);
    if (rc)
        return rc;
    struct tls_call *call = calloc(1, sizeof(*call));
    if (call) {
        list_init(&call->link);
        call->call.id = net_calls_number(calls);
    }
    if (!call || fill_frame(call, bytes, size) || net_calls_add(calls, &call->call, how)) {
        if (call)
            buf_fini(&call->frame);
        free(call);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", size);
    }
    *ret = call;
    return 0;
}
