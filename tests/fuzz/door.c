#include "tests/fuzz/door.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/rpc/frame.h"

enum { CALL_HEAD_BYTES = 5, TURN_MS = 2, SECOND_MS = 1000, FIRST_ID = 1000 };

static int64_t now_ms(void *self)
{
    const struct door *door = self;
    return door->now_ms;
}

static int64_t wall_ms(void *self)
{
    return 1700000000000 + now_ms(self);
}

static void fill(void *self, void *bytes, size_t count)
{
    struct door *door = self;
    for (size_t i = 0; i < count; i++) {
        door->random = door->random * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)bytes)[i] = (uint8_t)(door->random >> 56);
    }
}

static int listen_here(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                       net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err)
{
    struct door *door = self;
    (void)url, (void)max_in_flight, (void)err;
    door->on_request = on_request;
    door->on_gone = on_gone;
    door->arg = arg;
    *ret = self;
    return 0;
}

static const char *url_of(struct net_listener *listener)
{
    (void)listener;
    return "tcp://127.0.0.1:1";
}

static void answer(struct net_listener *listener, uint64_t number, const void *bytes, size_t size)
{
    struct door *door = (struct door *)listener;
    Muster__RpcAnswer *envelope;
    struct error err;
    insist(number >= 1 && number <= (uint64_t)door->count);
    struct door_request *request = &door->requests[number - 1];
    insist(!request->answered);
    request->answered = true;
    insist(frame_unpack_answer(bytes, size, &envelope, &err) == 0);
    insist(request->id == 0 || envelope->id == request->id);
    insist(envelope->code >= 0 && (envelope->code == 0 || envelope->message[0]));
    request->code = -envelope->code;
    buf_clear(&door->payload);
    insist(buf_append(&door->payload, envelope->payload.data, envelope->payload.len) == 0);
    rpc_message_free(envelope);
}

static void peer_name(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_NAME_MAX])
{
    (void)listener;
    (void)str_printf(ret, NET_PEER_NAME_MAX, "10.0.0.%d", (int)peer);
}

static int64_t peer_uid(struct net_listener *listener, uint64_t peer)
{
    (void)listener, (void)peer;
    return -1;
}

static void peer_key(struct net_listener *listener, uint64_t peer, char ret[NET_PEER_KEY_MAX])
{
    (void)listener;
    ret[0] = 0;
    if (peer <= DOOR_KEYS)
        (void)str_printf(ret, NET_PEER_KEY_MAX, "key-%d", (int)peer);
}

static void close_here(struct net_listener *listener)
{
    (void)listener;
}

/* Calls that are passed on wait for ever. */
static int dial_nowhere(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    (void)url, (void)err;
    *ret = self;
    return 0;
}

static int call_nowhere(struct net_dialer *dialer, const void *bytes, size_t size,
                        int64_t timeout_ms, net_answer_fn on_answer, void *arg, struct error *err)
{
    (void)dialer, (void)bytes, (void)size, (void)timeout_ms, (void)on_answer, (void)arg;
    return error_set(err, E_RESOURCE_EXHAUSTED, "nobody is there");
}

static void hang_up_nowhere(struct net_dialer *dialer)
{
    (void)dialer;
}

void door_init(struct door *door)
{
    *door = (struct door){.now_ms = 1000};
    door->env.clock = (struct clock){.self = door, .now_ms = now_ms, .wall_ms = wall_ms};
    door->env.rng = (struct rng_source){.self = door, .fill = fill};
    door->env.net = (struct net){.self = door,
                                 .listen = listen_here,
                                 .listener_url = url_of,
                                 .answer = answer,
                                 .peer_name = peer_name,
                                 .peer_uid = peer_uid,
                                 .peer_key = peer_key,
                                 .close_listener = close_here,
                                 .dial = dial_nowhere,
                                 .call = call_nowhere,
                                 .close_dialer = hang_up_nowhere};
    buf_init(&door->payload, NET_MESSAGE_MAX_BYTES);
    insist(loop_new_simulated(door->env.clock, &door->loop, NULL) == 0);
}

void door_fini(struct door *door)
{
    loop_free(door->loop);
    buf_fini(&door->payload);
}

void door_run(struct door *door, int64_t ms)
{
    const int64_t end_ms = door->now_ms + ms;
    for (;;) {
        int64_t due_ms = loop_turn(door->loop);
        if (door->now_ms >= end_ms)
            break;
        door->now_ms = due_ms > door->now_ms && due_ms < end_ms ? due_ms : end_ms;
    }
}

struct arriving { /* as a transport brings it: in a turn of the loop, in memory of its size */
    struct door *door;
    uint64_t number, peer;
    size_t size;
    uint8_t bytes[];
};

static void arrive(void *arg)
{
    struct arriving *it = arg;
    struct door *door = it->door;
    if (it->number)
        door->on_request(door->arg, it->number, it->peer, it->bytes, it->size);
    else
        door->on_gone(door->arg, it->peer);
    free(it);
}

static void post(struct door *door, uint64_t number, uint64_t peer, const void *bytes, size_t size)
{
    struct arriving *it = malloc(sizeof(*it) + size);
    insist(it);
    *it = (struct arriving){.door = door, .number = number, .peer = peer, .size = size};
    if (size)
        memcpy(it->bytes, bytes, size);
    loop_post(door->loop, arrive, it);
    (void)loop_turn(door->loop);
}

const struct door_request *door_send(struct door *door, uint64_t peer, const void *bytes,
                                     size_t size)
{
    if (door->count == DOOR_REQUESTS_MAX)
        return NULL;
    const struct door_request *request = &door->requests[door->count++];
    post(door, (uint64_t)door->count, peer, bytes, size);
    return request;
}

const struct door_request *door_ask(struct door *door, uint64_t peer,
                                    const Muster__RpcRequest *envelope)
{
    struct buf frame;
    Muster__RpcRequest numbered = *envelope;
    if (door->count == DOOR_REQUESTS_MAX)
        return NULL;
    numbered.id = FIRST_ID + (uint64_t)door->count;
    door->requests[door->count].id = numbered.id;
    buf_init(&frame, FRAME_MAX_BYTES);
    const struct door_request *request = NULL;
    if (frame_pack(&numbered.base, &frame, NULL) == 0)
        request = door_send(door, peer, frame.data, frame.size);
    buf_fini(&frame);
    return request;
}

void door_hang_up(struct door *door, uint64_t peer)
{
    post(door, 0, peer, NULL, 0);
}

uint64_t door_peer(const struct door_call *call)
{
    return 1 + (call->how & (DOOR_PEERS - 1));
}

bool door_next(const uint8_t **data, size_t *size, struct door_call *ret)
{
    const uint8_t *at = *data;
    if (*size < CALL_HEAD_BYTES)
        return false;
    size_t left = *size - CALL_HEAD_BYTES, wanted = (size_t)at[3] | (size_t)at[4] << 8;
    *ret = (struct door_call){.who = at[0],
                              .method = at[1],
                              .how = at[2],
                              .payload = at + CALL_HEAD_BYTES,
                              .size = wanted < left ? wanted : left};
    *data += CALL_HEAD_BYTES + ret->size;
    *size -= CALL_HEAD_BYTES + ret->size;
    return true;
}

static void send_frame(struct door *door, uint64_t peer, const uint8_t *bytes, size_t size)
{
    uint8_t *mended = malloc(size + 1);
    insist(mended);
    memcpy(mended, bytes, size);
    if (size >= FRAME_HEADER_BYTES)
        memcpy(mended, "MST1", 4);
    for (size_t i = 0; size >= FRAME_HEADER_BYTES && i < 4; i++)
        mended[4 + i] = (uint8_t)((size - FRAME_HEADER_BYTES) >> (8 * i));
    (void)door_send(door, peer, mended, size);
    free(mended);
}

const struct door_request *door_make(struct door *door, const struct door_call *call,
                                     const char *token, const char *method)
{
    uint64_t peer = door_peer(call);
    const struct door_request *request = NULL;
    Muster__RpcRequest envelope = MUSTER__RPC_REQUEST__INIT;
    envelope.method = (char *)(uintptr_t)method;
    envelope.token = (char *)(uintptr_t)token;
    envelope.timeout_ms = 500;
    envelope.payload.data = (uint8_t *)(uintptr_t)call->payload;
    envelope.payload.len = call->size;
    if (call->how & DOOR_FRAME)
        send_frame(door, peer, call->payload, call->size);
    else
        request = door_ask(door, peer, &envelope);
    door_run(door, call->how & DOOR_SECOND ? SECOND_MS : TURN_MS);
    if (call->how & DOOR_HANGS_UP)
        door_hang_up(door, peer);
    return request;
}
