#include "common/env/net_calls.h"

#include "common/base/assert.h"

enum {
    CONNECT_WAIT_MS = 250, /* a call made while not connected waits this long for it */
    SILENCE_MS = 5000,     /* a call this long that expires in silence ends its connection */
};

static const uint32_t request_id_mark = 0x80000000u; /* SP: the last id of a header has it */

void net_calls_init(struct net_calls *calls, const struct net_calls_owner *owner, struct loop *loop)
{
    *calls = (struct net_calls){.owner = owner, .loop = loop};
}

void net_calls_fini(struct net_calls *calls)
{
    map_fini(&calls->all);
}

int net_calls_check(const struct net_calls *calls, size_t size, struct error *err)
{
    if (calls->closed)
        return error_set(err, E_CANCELLED, "the connection is closed");
    if (size > NET_MESSAGE_MAX_BYTES)
        return error_set(err, E_OUT_OF_RANGE, "a message of %zu bytes is too large", size);
    return 0;
}

uint32_t net_calls_number(struct net_calls *calls)
{
    uint32_t id;
    do
        id = request_id_mark | ++calls->last_id;
    while (map_get(&calls->all, id));
    return id;
}

static void call_due(void *arg)
{
    struct net_call *call = arg;
    struct net_calls *calls = call->calls;
    const struct net_calls_owner *owner = calls->owner;
    int64_t now_ms = loop_now_ms(calls->loop);
    bool connected = owner->connected(calls), sent = owner->sent(call);
    if (now_ms < call->deadline_ms) {
        if (sent || connected)
            loop_timer_set(calls->loop, &call->timer, call->deadline_ms, call_due, call);
        else
            net_call_complete(call, E_UNAVAILABLE, NULL, 0);
        return;
    }
    bool silent = sent && connected && now_ms - call->started_ms >= SILENCE_MS &&
                  now_ms - calls->heard_ms >= SILENCE_MS;
    net_call_complete(call, connected || sent ? E_DEADLINE_EXCEEDED : E_UNAVAILABLE, NULL, 0);
    if (silent && !calls->closed && owner->connected(calls))
        owner->cut(calls);
}

int net_calls_add(struct net_calls *calls, struct net_call *call, const struct net_call_how *how)
{
    insist(how->on_answer);
    if (map_set(&calls->all, call->id, call, NULL))
        return E_RESOURCE_EXHAUSTED;
    call->calls = calls;
    call->on_answer = how->on_answer;
    call->arg = how->arg;
    call->started_ms = loop_now_ms(calls->loop);
    call->deadline_ms = call->started_ms + (how->timeout_ms > 0 ? how->timeout_ms : 0);
    int64_t due_ms = call->deadline_ms;
    if (due_ms > call->started_ms + CONNECT_WAIT_MS && !calls->owner->connected(calls))
        due_ms = call->started_ms + CONNECT_WAIT_MS;
    loop_timer_set(calls->loop, &call->timer, due_ms, call_due, call);
    return 0;
}

struct net_call *net_calls_find(const struct net_calls *calls, uint32_t id)
{
    return map_get(&calls->all, id);
}

void net_call_complete(struct net_call *call, int code, const void *bytes, size_t size)
{
    struct net_calls *calls = call->calls;
    loop_timer_cancel(calls->loop, &call->timer);
    map_remove(&calls->all, call->id);
    calls->owner->withdraw(call);
    call->on_answer(call->arg, code, bytes, size);
    calls->owner->release(call);
}

void net_calls_lose(struct net_calls *calls,
                    bool (*over)(const struct net_call *call, uint64_t connection),
                    uint64_t connection)
{
    struct map_entry *entry;
    uint64_t next = 0;
    while (!calls->closed && (entry = map_at_least(&calls->all, next))) {
        struct net_call *call = entry->value;
        next = entry->key + 1;
        if (over(call, connection))
            net_call_complete(call, E_UNAVAILABLE, NULL, 0);
    }
}

void net_calls_close(struct net_calls *calls)
{
    struct map_entry *entry;
    calls->closed = true;
    while ((entry = map_first(&calls->all)))
        net_call_complete(entry->value, E_CANCELLED, NULL, 0);
}
