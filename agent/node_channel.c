#include "agent/node_channel.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"

static void send_due(struct node_channel *channel);
static void receive_due(struct node_channel *channel);

static void close_terminal(struct node_channel *channel)
{
    terminal_free(channel->terminal);
    channel->terminal = NULL;
}

/* True for failures after which the same call may succeed. */
static bool may_repeat(const struct error *err)
{
    return err->code == E_UNAVAILABLE || err->code == E_DEADLINE_EXCEEDED ||
           err->code == E_RESOURCE_EXHAUSTED;
}

static void again(void *arg)
{
    send_due(arg);
    receive_due(arg);
}

/* The coordinator's word that there is no such channel is final. */
static void failed(struct node_channel *channel, const struct error *err)
{
    if (err->code == E_CANCELLED)
        return; /* the agent ends */
    if (may_repeat(err)) {
        loop_timer_set(channel->host->loop, &channel->again,
                       loop_now_ms(channel->host->loop) + CHANNEL_AGAIN_MS, again, channel);
        return;
    }
    channel->gone = true;
    close_terminal(channel);
}

/* Output */

static bool has_room(const struct node_channel *channel)
{
    for (int i = 0; i < CHANNEL_STREAMS; i++)
        if (channel->out[i].size + TERMINAL_READ_BYTES > CHANNEL_OUTPUT_BYTES)
            return false;
    return true;
}

static void on_sent(struct node_channel *channel, int stream, const struct error *err,
                    const Muster__SendTerminalAnswer *answer)
{
    channel->sending = false;
    if (err->code) {
        failed(channel, err);
        channel->host->idle(channel->host->arg);
        return;
    }
    uint64_t accepted = answer->offset - channel->out[stream].accepted;
    if (accepted <= channel->out[stream].size) {
        size_t left = channel->out[stream].size - (size_t)accepted;
        memmove(channel->out[stream].bytes, channel->out[stream].bytes + accepted, left);
        channel->out[stream].size = left;
        channel->out[stream].accepted = answer->offset;
    }
    if (channel->terminal && has_room(channel))
        terminal_resume(channel->terminal);
    send_due(channel);
    channel->host->idle(channel->host->arg);
}

static void on_output_sent(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    on_sent(arg, TERMINAL_OUTPUT, err, (const void *)answer);
}

static void on_errors_sent(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    on_sent(arg, TERMINAL_ERRORS, err, (const void *)answer);
}

static void on_end_sent(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct node_channel *channel = arg;
    (void)answer;
    channel->sending = false;
    if (err->code)
        failed(channel, err);
    else
        channel->told = true;
    channel->host->idle(channel->host->arg);
}

static void call(struct node_channel *channel, const char *method, const ProtobufCMessage *message,
                 rpc_done done, bool *in_flight)
{
    struct rpc_options options = {.timeout_ms = CHANNEL_CALL_MS};
    struct error err = {0};
    *in_flight = !rpc_client_call(channel->host->client, &muster__nodes__descriptor, method,
                                  message, &options, done, channel, &err);
    if (!*in_flight)
        failed(channel, &err);
}

static void wire_end(const struct terminal_end *end, Muster__ChannelEnd *ret)
{
    muster__channel_end__init(ret);
    ret->text = (char *)(uintptr_t)end->why;
    switch (end->reason) {
    case TERMINAL_EXITED:
    case TERMINAL_NOT_STARTED:
        ret->exited = true;
        ret->code = end->code;
        break;
    case TERMINAL_SIGNALED:
        ret->exited = true;
        ret->signal = end->signal;
        break;
    case TERMINAL_CLOSED:
        ret->exited = true;
        break;
    case TERMINAL_WORKER_ENDED:
    case TERMINAL_REFUSED:
    case TERMINAL_LOST:
        break;
    }
}

/* One call at a time: of the bytes that are first, or of the end after all bytes. */
static void send_due(struct node_channel *channel)
{
    Muster__SendTerminalRequest message = MUSTER__SEND_TERMINAL_REQUEST__INIT;
    Muster__ChannelEnd end;
    int stream = channel->out[TERMINAL_OUTPUT].size > 0 ? TERMINAL_OUTPUT : TERMINAL_ERRORS;
    size_t size = channel->out[stream].size;
    if (channel->sending || channel->gone || !channel->wanted ||
        (size == 0 && (!channel->ended || channel->told)))
        return;
    rpc_done done = size == 0                   ? on_end_sent
                    : stream == TERMINAL_OUTPUT ? on_output_sent
                                                : on_errors_sent;
    message.node = (char *)(uintptr_t)channel->host->node;
    message.incarnation = channel->host->incarnation;
    message.id = channel->id;
    message.offset = channel->out[stream].accepted;
    message.errors = stream == TERMINAL_ERRORS;
    message.data.data = channel->out[stream].bytes;
    message.data.len = size < CHANNEL_SEND_BYTES ? size : CHANNEL_SEND_BYTES;
    if (size == 0) {
        wire_end(&channel->end, &end);
        message.end = &end;
    }
    call(channel, "SendTerminal", &message.base, done, &channel->sending);
}

static void on_output(void *arg, enum terminal_stream stream, const char *bytes, size_t size)
{
    struct node_channel *channel = arg;
    size_t used = channel->out[stream].size;
    insist(size <= CHANNEL_OUTPUT_BYTES - used);
    memcpy(channel->out[stream].bytes + used, bytes, size);
    channel->out[stream].size += size;
    if (!has_room(channel))
        terminal_pause(channel->terminal);
    send_due(channel);
}

static void on_ended(void *arg, const struct terminal_end *end)
{
    struct node_channel *channel = arg;
    channel->ended = true;
    channel->end = *end;
    close_terminal(channel);
    send_due(channel);
}

/* Input */

static void write_input(struct node_channel *channel)
{
    if (!channel->terminal)
        return;
    if (channel->input_at < channel->input_size)
        channel->input_at +=
            terminal_write(channel->terminal, (const char *)channel->input + channel->input_at,
                           channel->input_size - channel->input_at);
    if (channel->input_at < channel->input_size)
        return;
    channel->input_at = channel->input_size = 0;
    if (channel->input_ended)
        terminal_end_input(channel->terminal);
    receive_due(channel);
}

static void on_writable(void *arg)
{
    write_input(arg);
}

static void input_arrived(struct node_channel *channel, const Muster__ReceiveTerminalAnswer *answer)
{
    if (answer->data.len > sizeof(channel->input)) {
        struct error err;
        error_set(&err, E_INTERNAL, "more input than one answer may have");
        failed(channel, &err);
        return;
    }
    if (answer->data.len > 0)
        memcpy(channel->input, answer->data.data, answer->data.len);
    channel->input_size = answer->data.len;
    channel->received += answer->data.len;
    channel->input_ended = answer->ended;
    if (channel->terminal && answer->rows && answer->columns &&
        (answer->rows != channel->rows || answer->columns != channel->columns))
        (void)terminal_resize(channel->terminal, (uint16_t)answer->rows, (uint16_t)answer->columns,
                              NULL);
    channel->rows = answer->rows;
    channel->columns = answer->columns;
    write_input(channel);
}

static void on_received(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct node_channel *channel = arg;
    channel->receiving = false;
    if (err->code)
        failed(channel, err);
    else if (channel->terminal)
        input_arrived(channel, (const void *)answer);
    channel->host->idle(channel->host->arg);
}

static void receive_due(struct node_channel *channel)
{
    Muster__ReceiveTerminalRequest message = MUSTER__RECEIVE_TERMINAL_REQUEST__INIT;
    if (channel->receiving || channel->gone || !channel->wanted || !channel->terminal ||
        channel->input_at < channel->input_size)
        return;
    message.node = (char *)(uintptr_t)channel->host->node;
    message.incarnation = channel->host->incarnation;
    message.id = channel->id;
    message.offset = channel->received;
    message.ended = channel->input_ended;
    message.rows = channel->rows;
    message.columns = channel->columns;
    call(channel, "ReceiveTerminal", &message.base, on_received, &channel->receiving);
}

/* Life */

static int open_terminal(struct node_channel *channel, const Muster__Terminal *wish,
                         struct error *err)
{
    struct launcher *launcher = channel->host->launcher;
    struct worker_key key = {.uid = wish->uid};
    struct terminal_events events = {
        .arg = channel, .output = on_output, .writable = on_writable, .ended = on_ended};
    if (str_copy(key.job, sizeof(key.job), wish->job) || !launcher->open_terminal)
        return error_set(err, E_FAILED_PRECONDITION, "this node opens no terminals");
    if (wish->port)
        return launcher->open_connection(launcher->self, &key, (uint16_t)wish->port, &events,
                                         &channel->terminal, err);
    const char **argv = calloc(wish->n_argv + 1, sizeof(*argv));
    if (!argv)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a terminal");
    for (size_t i = 0; i < wish->n_argv; i++)
        argv[i] = wish->argv[i];
    struct terminal_wish terminal = {.argv = wish->n_argv > 0 ? argv : NULL,
                                     .pty = wish->terminal,
                                     .rows = (uint16_t)wish->rows,
                                     .columns = (uint16_t)wish->columns,
                                     .type = wish->term};
    int rc =
        launcher->open_terminal(launcher->self, &key, &terminal, &events, &channel->terminal, err);
    free((void *)argv);
    return rc;
}

struct node_channel *node_channel_open(const struct channel_host *host,
                                       const Muster__Terminal *wish)
{
    struct node_channel *channel = calloc(1, sizeof(*channel));
    struct error err = {0};
    if (!channel || str_copy(channel->id, sizeof(channel->id), wish->id)) {
        free(channel);
        return NULL;
    }
    channel->host = host;
    channel->wanted = true;
    channel->rows = wish->rows;
    channel->columns = wish->columns;
    list_init(&channel->link);
    if (open_terminal(channel, wish, &err)) {
        channel->ended = true;
        channel->end.reason = TERMINAL_LOST;
        (void)str_copy(channel->end.why, sizeof(channel->end.why), err.text);
    }
    again(channel);
    return channel;
}

void node_channel_drop(struct node_channel *channel)
{
    channel->wanted = false;
    loop_timer_cancel(channel->host->loop, &channel->again);
    close_terminal(channel);
}

bool node_channel_is_idle(const struct node_channel *channel)
{
    return !channel->wanted && !channel->sending && !channel->receiving;
}

void node_channel_free(struct node_channel *channel)
{
    list_remove(&channel->link);
    loop_timer_cancel(channel->host->loop, &channel->again);
    close_terminal(channel);
    free(channel);
}
