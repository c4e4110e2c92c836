#include "cli/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/escape.h"
#include "common/base/str.h"

enum {
    OUTPUT_BYTES = 64 << 10,
    WRITE_BYTES = 4096, /* PIPE_BUF: a ready pipe accepts it without blocking */
    CALL_MS = 10000,
    CLOSE_MS = 1000,
    RETRY_MS = 200,
    ALIVE_MS = 5000, /* the coordinator ends a channel that it does not hear of for 15 s */
    LOST_MS = 12000,
    SIGNALLED = 128,
    FILTER_BYTES = 1, /* that a filter may add */
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void remote_give_up(struct remote *remote, const char *why)
{
    if (remote->over)
        return;
    remote->over = true;
    (void)str_copy(remote->text, sizeof(remote->text), why);
}

/* Calls that were lost are repeated as they were, until the coordinator has been silent long. */
static void call_failed(struct remote *remote, const struct error *err)
{
    bool again = err->code == E_UNAVAILABLE || err->code == E_DEADLINE_EXCEEDED ||
                 err->code == E_RESOURCE_EXHAUSTED;
    if (err->code == E_CANCELLED)
        return;
    remote->retry_ms = now_ms() + RETRY_MS;
    if (!again || now_ms() - remote->good_ms > LOST_MS)
        remote_give_up(remote, err->text);
}

static void on_sent(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct remote *remote = arg;
    const Muster__SendChannelAnswer *answer = (const void *)message;
    remote->sending = false;
    if (err->code) {
        remote->resized = remote->rows > 0;
        call_failed(remote, err);
        return;
    }
    remote->good_ms = now_ms();
    uint64_t accepted = answer->offset - remote->offset;
    if (accepted > remote->size)
        return;
    remote->size -= (size_t)accepted;
    memmove(remote->input, remote->input + accepted, remote->size);
    remote->offset = answer->offset;
    remote->end_sent = remote->end_in_call && remote->size == 0;
}

static void take_end(struct remote *remote, const Muster__ChannelEnd *end)
{
    remote->over = true;
    remote->exited = end->exited;
    remote->code = end->code;
    remote->signal = end->signal;
    (void)str_copy(remote->text, sizeof(remote->text), end->text);
}

static void take_bytes(struct remote_sink *sink, const ProtobufCBinaryData *data)
{
    size_t size = data->len < OUTPUT_BYTES ? data->len : OUTPUT_BYTES;
    if (size > 0)
        memcpy(sink->bytes, data->data, size);
    sink->at = 0;
    sink->size = sink->fd >= 0 ? size : 0;
    sink->offset += size;
}

static void on_received(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct remote *remote = arg;
    const Muster__ReceiveChannelAnswer *answer = (const void *)message;
    remote->receiving = false;
    if (err->code) {
        call_failed(remote, err);
        return;
    }
    remote->good_ms = now_ms();
    take_bytes(&remote->out, &answer->data);
    take_bytes(&remote->errors, &answer->errors);
    if (answer->end)
        take_end(remote, answer->end);
}

static bool start_call(struct remote *remote, const char *method, const ProtobufCMessage *message,
                       rpc_done done)
{
    struct error err = {0};
    struct rpc_sync_start how = {.options = {.timeout_ms = CALL_MS}, .done = done, .arg = remote};
    remote->called_ms = now_ms();
    if (!rpc_sync_start(remote->client->rpc, &muster__coordinator__descriptor, method, message,
                        &how, &err))
        return true;
    call_failed(remote, &err);
    return false;
}

static void send_due(struct remote *remote)
{
    Muster__SendChannelRequest message = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    bool ends = remote->input_over && !remote->end_sent;
    bool silent = !remote->receiving && now_ms() - remote->called_ms >= ALIVE_MS;
    if (remote->sending || (remote->size == 0 && !ends && !remote->resized && !silent))
        return;
    message.id = remote->id;
    message.offset = remote->offset;
    message.data.data = remote->input;
    message.data.len = remote->size;
    message.end = remote->end_in_call = remote->input_over;
    message.rows = remote->rows;
    message.columns = remote->columns;
    remote->resized = false;
    remote->sending = start_call(remote, "SendChannel", &message.base, on_sent);
}

static bool is_written(const struct remote *remote)
{
    return remote->out.at == remote->out.size && remote->errors.at == remote->errors.size;
}

static void receive_due(struct remote *remote)
{
    Muster__ReceiveChannelRequest message = MUSTER__RECEIVE_CHANNEL_REQUEST__INIT;
    if (remote->receiving || !is_written(remote))
        return;
    message.id = remote->id;
    message.offset = remote->out.offset;
    message.errors_offset = remote->errors.offset;
    remote->receiving = start_call(remote, "ReceiveChannel", &message.base, on_received);
}

void remote_act(struct remote *remote)
{
    if (remote->over || now_ms() < remote->retry_ms)
        return;
    receive_due(remote);
    send_due(remote);
}

static bool wants_input(const struct remote *remote)
{
    return remote->in >= 0 && !remote->over && !remote->input_over &&
           remote->size + FILTER_BYTES < REMOTE_INPUT_BYTES;
}

size_t remote_wishes(const struct remote *remote, struct pollfd ret[REMOTE_FDS])
{
    size_t count = 0;
    bool writes = remote->out.at < remote->out.size, same = remote->in == remote->out.fd;
    if (wants_input(remote) || (same && writes))
        ret[count++] = (struct pollfd){
            .fd = remote->in,
            .events = (short)((wants_input(remote) ? POLLIN : 0) | (same && writes ? POLLOUT : 0))};
    if (writes && !same)
        ret[count++] = (struct pollfd){.fd = remote->out.fd, .events = POLLOUT};
    if (remote->errors.at < remote->errors.size)
        ret[count++] = (struct pollfd){.fd = remote->errors.fd, .events = POLLOUT};
    return count;
}

static void read_input(struct remote *remote)
{
    uint8_t *to = remote->input + remote->size;
    ssize_t got = read(remote->in, to, REMOTE_INPUT_BYTES - remote->size - FILTER_BYTES);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    size_t size = got > 0 ? (size_t)got : 0;
    if (got <= 0)
        remote->input_over = true;
    else if (remote->filter && !remote->filter(remote->filter_arg, to, &size))
        remote_give_up(remote, "");
    remote->size += size;
}

/* Only as much as it accepts now: a reader that pauses must not stop the calls. */
static void write_output(struct remote *remote, struct remote_sink *sink)
{
    struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
    while (sink->at < sink->size && poll(&ready, 1, 0) == 1) {
        size_t left = sink->size - sink->at;
        ssize_t put =
            write(sink->fd, sink->bytes + sink->at, left < WRITE_BYTES ? left : WRITE_BYTES);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (put <= 0) {
            sink->at = sink->size;
            remote_give_up(remote, "its output cannot be written");
            return;
        }
        sink->at += (size_t)put;
    }
}

void remote_serve(struct remote *remote, const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == remote->in && wants_input(remote) && fds[i].revents & (POLLIN | POLLHUP))
            read_input(remote);
        if (fds[i].fd == remote->out.fd)
            write_output(remote, &remote->out);
        if (fds[i].fd == remote->errors.fd)
            write_output(remote, &remote->errors);
    }
}

bool remote_done(const struct remote *remote)
{
    return remote->over && is_written(remote);
}

int remote_open(struct client *client, Muster__OpenChannelRequest *wish,
                const struct remote_ends *ends, struct remote *ret, struct error *err)
{
    Muster__Channel *channel = NULL;
    struct rpc_options options = {.timeout_ms = CALL_MS};
    *ret = (struct remote){
        .client = client, .in = ends->in, .out = {.fd = ends->out}, .errors = {.fd = ends->errors}};
    ret->out.bytes = malloc(OUTPUT_BYTES);
    ret->errors.bytes = malloc(OUTPUT_BYTES);
    int rc = ret->out.bytes && ret->errors.bytes
                 ? client_call(client, "OpenChannel", wish, &options, &channel, err)
                 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a terminal");
    if (rc) {
        remote_close(ret);
        return rc;
    }
    (void)str_copy(ret->id, sizeof(ret->id), channel->id);
    (void)str_copy(ret->node, sizeof(ret->node), channel->node);
    rpc_message_free(channel);
    ret->open = true;
    ret->input_over = ends->in < 0;
    ret->called_ms = ret->good_ms = now_ms();
    return 0;
}

void remote_close(struct remote *remote)
{
    Muster__SendChannelRequest message = MUSTER__SEND_CHANNEL_REQUEST__INIT;
    Muster__SendChannelAnswer *answer = NULL;
    struct rpc_options options = {.timeout_ms = CLOSE_MS};
    struct error ignored = {0};
    if (remote->open) {
        rpc_sync_cancel(remote->client->rpc, remote);
        message.id = remote->id;
        message.close = true;
        (void)client_call(remote->client, "SendChannel", &message, &options, &answer, &ignored);
        rpc_message_free(answer);
    }
    free(remote->out.bytes);
    free(remote->errors.bytes);
    *remote = (struct remote){0};
}

int remote_exit_code(const struct remote *remote)
{
    if (remote->text[0]) {
        char *escaped = escape_text(remote->text, true);
        fprintf(stderr, "muster: %s\n", escaped ? escaped : remote->text);
        free(escaped);
    }
    if (!remote->exited)
        return REMOTE_EXIT_LOST;
    return remote->signal ? SIGNALLED + remote->signal : remote->code;
}
