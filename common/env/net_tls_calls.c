/* The calls of a dialer: numbered, timed, completed once. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/env/net_sp.h"
#include "common/env/net_tls_dialer_internal.h"

enum {
    CONNECT_WAIT_MS = 250, /* a call made while not connected waits this long for it */
    SILENCE_MS = 5000,     /* a call this long that expires in silence ends its connection */
};

static const uint32_t request_id_mark = 0x80000000u; /* SP: the last id of a header has it */

void tls_call_complete(struct tls_call *call, int code, const void *bytes, size_t size)
{
    struct tls_dialer *d = call->dialer;
    loop_timer_cancel(d->loop, &call->timer);
    map_remove(&d->calls, call->id);
    list_remove(&call->link);
    buf_fini(&call->frame);
    call->on_answer(call->arg, code, bytes, size);
    free(call);
}

/* A callback may make new calls, which are not sent yet, or close the dialer. */
void tls_calls_lost(struct tls_dialer *d)
{
    struct map_entry *entry;
    uint64_t next = 0;
    while (!d->closed && (entry = map_at_least(&d->calls, next))) {
        struct tls_call *call = entry->value;
        next = entry->key + 1;
        if (call->sent)
            tls_call_complete(call, E_UNAVAILABLE, NULL, 0);
    }
}

static void call_due(void *arg)
{
    struct tls_call *call = arg;
    struct tls_dialer *d = call->dialer;
    int64_t now_ms = loop_now_ms(d->loop);
    bool connected = d->state == CONNECTED, sent = call->sent;
    if (now_ms < call->deadline_ms) {
        if (sent || connected)
            loop_timer_set(d->loop, &call->timer, call->deadline_ms, call_due, call);
        else
            tls_call_complete(call, E_UNAVAILABLE, NULL, 0);
        return;
    }
    /* A cut without a word leaves a connection that TCP would keep for minutes. */
    bool silent = sent && connected && now_ms - call->started_ms >= SILENCE_MS &&
                  now_ms - d->heard_ms >= SILENCE_MS;
    tls_call_complete(call, connected || sent ? E_DEADLINE_EXCEEDED : E_UNAVAILABLE, NULL, 0);
    if (silent && !d->closed && d->state == CONNECTED)
        tls_dialer_lost(d);
}

static int fill_frame(struct tls_call *call, const void *bytes, size_t size)
{
    uint8_t head[SP_HEAD_MAX_BYTES];
    uint8_t id[] = {(uint8_t)(call->id >> 24), (uint8_t)(call->id >> 16), (uint8_t)(call->id >> 8),
                    (uint8_t)call->id};
    size_t head_bytes = sp_head(sizeof(id) + size, false, head);
    buf_init(&call->frame, SP_HEAD_MAX_BYTES + sizeof(id) + NET_MESSAGE_MAX_BYTES);
    (void)buf_append(&call->frame, head, head_bytes);
    (void)buf_append(&call->frame, id, sizeof(id));
    (void)buf_append(&call->frame, bytes, size);
    return buf_failed(&call->frame) ? E_RESOURCE_EXHAUSTED : 0;
}

static int call_new(struct tls_dialer *d, const void *bytes, size_t size, struct tls_call **ret)
{
    struct tls_call *call = calloc(1, sizeof(*call));
    if (!call)
        return E_RESOURCE_EXHAUSTED;
    list_init(&call->link);
    call->dialer = d;
    do
        call->id = request_id_mark | ++d->last_id;
    while (map_get(&d->calls, call->id));
    if (fill_frame(call, bytes, size) != 0 || map_set(&d->calls, call->id, call, NULL) != 0) {
        buf_fini(&call->frame);
        free(call);
        return E_RESOURCE_EXHAUSTED;
    }
    *ret = call;
    return 0;
}

int tls_dialer_call(struct tls_dialer *d, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    insist(on_answer);
    if (d->closed)
        return error_set(err, E_CANCELLED, "the connection is closed");
    if (size > NET_MESSAGE_MAX_BYTES)
        return error_set(err, E_OUT_OF_RANGE, "a message of %zu bytes is too large", size);
    struct tls_call *call;
    if (call_new(d, bytes, size, &call) != 0)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", size);
    call->on_answer = on_answer;
    call->arg = arg;
    call->started_ms = loop_now_ms(d->loop);
    call->deadline_ms = call->started_ms + (timeout_ms > 0 ? timeout_ms : 0);
    list_push_back(&d->queue, &call->link);
    int64_t due_ms = call->deadline_ms;
    if (d->state != CONNECTED && due_ms > call->started_ms + CONNECT_WAIT_MS)
        due_ms = call->started_ms + CONNECT_WAIT_MS;
    loop_timer_set(d->loop, &call->timer, due_ms, call_due, call);
    if (d->state == CONNECTED && !tls_dialer_send_queue(d))
        tls_dialer_send_soon(d);
    return 0;
}
