/* The agent's calls about channels: which should be open on its node, as a part of Poll's answer,
 * and their bytes in both directions. */
#include <string.h>

#include "common/base/str.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/channels.h"
#include "coordinator/api_rpc/node_calls.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/terminal_calls.h"
#include "coordinator/api_rpc/wire.h"

static void wire_terminal(const struct channel *channel, Muster__Terminal *ret)
{
    muster__terminal__init(ret);
    ret->id = rpc_text(channel->id);
    ret->job = rpc_text(channel->job);
    ret->uid = channel->uid;
    ret->argv = channel->argv;
    ret->n_argv = channel->argc;
    ret->terminal = channel->terminal;
    ret->term = rpc_text(channel->term);
    ret->rows = channel->rows;
    ret->columns = channel->columns;
    ret->port = channel->port;
}

bool service_terminals_differ(struct service *service, const Muster__NodePollRequest *message)
{
    if (message->terminals_version == 0)
        return false;
    int64_t now_ms = service_now_ms(service);
    if (relay_agent_asks(service->relay, message->node, message->incarnation, now_ms))
        channels_changed(service);
    return message->terminals_version != relay_version(service->relay, message->node);
}

bool service_fill_terminals(struct service *service, struct arena *arena,
                            const Muster__NodePollRequest *message, Muster__NodePollAnswer *ret)
{
    if (message->terminals_version == 0)
        return true;
    ret->terminals_version = relay_version(service->relay, message->node);
    for (struct channel *c = relay_first(service->relay); c; c = relay_next(service->relay, c)) {
        if (!relay_wants(c, message->node))
            continue;
        Muster__Terminal *one = arena_alloc(arena, sizeof(*one));
        if (!ret->terminals)
            ret->terminals = arena_pointers(arena, MAX_CHANNELS);
        if (!one || !ret->terminals)
            return false;
        wire_terminal(c, one);
        ret->terminals[ret->n_terminals++] = one;
    }
    return true;
}

/* This agent's own, NULL with err set. */
static struct channel *find_channel(struct service_call *call, const char *node,
                                    uint64_t incarnation, const char *id, struct error *err)
{
    if (!service_reporting_node(call, node, incarnation, err))
        return NULL;
    struct channel *channel = relay_of_node(call->service->relay, id, node, incarnation);
    if (channel)
        channel->taken = true;
    else
        error_set(err, E_NOT_FOUND, "there is no such channel on this node");
    return channel;
}

static void finish_channel(struct service *service, struct channel *channel,
                           const Muster__ChannelEnd *from)
{
    struct channel_end end = {.exited = from->exited, .code = from->code, .signal = from->signal};
    (void)str_copy(end.text, sizeof(end.text), from->text);
    if (channel_finish(channel, &end, service_now_ms(service)))
        channels_changed(service);
}

void call_send_terminal(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__SendTerminalRequest *message = (const void *)call->request;
    Muster__SendTerminalAnswer answer = MUSTER__SEND_TERMINAL_ANSWER__INIT;
    struct error err = {0};
    struct channel *channel =
        find_channel(call, message->node, message->incarnation, message->id, &err);
    struct relay_pipe *pipe =
        channel ? &channel->pipes[message->errors ? CHANNEL_ERRORS : CHANNEL_OUT] : NULL;
    struct relay_bytes bytes = {message->data.data, message->data.len};
    int64_t now_ms = service_now_ms(service);
    uint64_t before = pipe ? pipe->accepted : 0;
    if (!pipe || (!channel->over && relay_pipe_put(pipe, now_ms, message->offset, &bytes, &err))) {
        service_fail(call, &err);
        return;
    }
    answer.offset = channel->over ? message->offset + bytes.size : pipe->accepted;
    if (pipe->accepted != before) {
        channel->used_ms = now_ms;
        channels_wake(service, channel, CHANNEL_OUT);
    }
    if (message->end && answer.offset >= message->offset + bytes.size)
        finish_channel(service, channel, message->end);
    if (bytes.size > 0 && answer.offset <= message->offset && !last_chance)
        channels_wait(call, channel, CHANNEL_OUT,
                      relay_pipe_is_full(pipe) ? INT64_MAX : now_ms + RELAY_RATE_WAIT_MS);
    else
        service_answer(call, &answer.base);
}

void call_receive_terminal(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__ReceiveTerminalRequest *message = (const void *)call->request;
    Muster__ReceiveTerminalAnswer answer = MUSTER__RECEIVE_TERMINAL_ANSWER__INIT;
    struct error err = {0};
    struct relay_bytes bytes;
    struct channel *channel =
        find_channel(call, message->node, message->incarnation, message->id, &err);
    struct relay_pipe *pipe = channel ? &channel->pipes[CHANNEL_IN] : NULL;
    uint64_t held = pipe ? relay_pipe_held(pipe) : 0;
    if (channel && channel->over)
        error_set(&err, E_NOT_FOUND, "the channel is over");
    if (err.code || relay_pipe_get(pipe, message->offset, &bytes, &err)) {
        service_fail(call, &err);
        return;
    }
    if (held > relay_pipe_held(pipe))
        channels_wake(service, channel, CHANNEL_IN); /* there is room for its client's bytes */
    answer.ended = pipe->ended && bytes.size == relay_pipe_held(pipe);
    bool news = bytes.size > 0 || answer.ended != message->ended ||
                message->rows != channel->rows || message->columns != channel->columns;
    if (!news && !last_chance) {
        channels_wait(call, channel, CHANNEL_IN, INT64_MAX);
        return;
    }
    answer.data =
        (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)bytes.data, .len = bytes.size};
    answer.rows = channel->rows;
    answer.columns = channel->columns;
    service_answer(call, &answer.base);
}
