/* The client's calls about channels: opening one beside a worker, its bytes in both directions, and
 * the list of those that are open. Bytes are served as reads, so a turn of the loop shares its time
 * between them and all other callers (budget.h). */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/channels.h"
#include "coordinator/api_rpc/job_query.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/core/channel_note.h"
#include "coordinator/model/query.h"

enum {
    CHUNK_MAX = 32 << 10,
    LIST_ARENA_MAX_BYTES = 1 << 20,
    CLIENT_AGAIN_MS = RELAY_LOST_MS / 3, /* a waiting call is looked at: its client is there */
};

static void wire_channel(struct service *service, const struct channel *channel,
                         Muster__Channel *ret)
{
    muster__channel__init(ret);
    ret->id = rpc_text(channel->id);
    ret->job = rpc_text(channel->job);
    ret->rank = (uint32_t)channel->rank;
    ret->node = rpc_text(channel->node);
    ret->user = rpc_text(channel->user);
    ret->what = rpc_text(channel->words);
    ret->terminal = channel->terminal;
    ret->opened_wall_ms = service_wall_ms(service) - (service_now_ms(service) - channel->opened_ms);
    ret->bytes_in = channel->pipes[CHANNEL_IN].accepted;
    ret->bytes_out = channel->pipes[CHANNEL_OUT].accepted + channel->pipes[CHANNEL_ERRORS].accepted;
}

/* The worker that has the rank now. While a gang forms for the first time, it is of that gang. */
static int find_worker(const struct job *job, uint32_t rank, const struct worker **ret,
                       struct error *err)
{
    const struct group *group = job->current.generation ? &job->current : &job->forming;
    if (job_state_ended(job->state) || !group->generation)
        return error_set(err, E_FAILED_PRECONDITION, "job %s is %s: none of its programs runs",
                         job->id, job_state_name(job->state));
    if (rank >= (uint32_t)group->world) {
        error_set(err, E_INVALID_ARGUMENT, "job %s has no rank %u: its ranks are 0 to %d", job->id,
                  rank, group->world - 1);
        error_field(err, "rank");
        return E_INVALID_ARGUMENT;
    }
    const struct worker *worker = job_worker(job, group->members[rank]);
    if (!worker || !worker_living(worker) || worker->state == WORKER_ASSIGNED)
        return error_set(err, E_FAILED_PRECONDITION, "rank %u of job %s does not run", rank,
                         job->id);
    *ret = worker;
    return 0;
}

static int read_wish(struct service_call *call, const Muster__OpenChannelRequest *message,
                     struct channel_wish *ret, struct error *err)
{
    const struct job *job = service_find_job(call, message->id, err);
    const struct worker *worker = NULL;
    if (!job)
        return err->code;
    if (message->port > UINT16_MAX) {
        error_set(err, E_INVALID_ARGUMENT, "port: at most 65535");
        error_field(err, "port");
        return E_INVALID_ARGUMENT;
    }
    int rc = find_worker(job, message->rank, &worker, err);
    if (rc)
        return rc;
    const struct node *node = cluster_node(service_cluster(call->service), worker->node);
    if (!node || node->state == NODE_LOST)
        return error_set(err, E_UNAVAILABLE, "node %s, where rank %u runs, is not connected",
                         worker->node, message->rank);
    *ret = (struct channel_wish){
        .owner = call->caller->id,
        .user = call->caller->name,
        .tenant = job->spec->tenant,
        .job = job->id,
        .node = node->name,
        .incarnation = node->incarnation,
        .uid = worker->uid,
        .rank = (int)message->rank,
        .argv = message->argv,
        .argc = message->n_argv,
        .terminal = message->terminal,
        .term = message->term,
        .rows = message->rows,
        .columns = message->columns,
        .port = (uint16_t)message->port,
    };
    return channel_check(ret, err);
}

static int open_channel(struct service_call *call, const struct channel_wish *wish,
                        struct channel **ret, struct error *err)
{
    struct service *service = call->service;
    struct env *env = service->options.env;
    uint8_t id[CHANNEL_ID_BYTES];
    enum limit limit;
    if (!relay_has_room(service->relay, wish, service_now_ms(service), &limit))
        return budget_refuse(&service->budgets, limit, err);
    env->rng.fill(env->rng.self, id, sizeof(id));
    return relay_open(service->relay, wish, id, service_now_ms(service), ret, err);
}

static bool is_first_of_its_kind(const struct relay *relay, const struct channel *channel)
{
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c))
        if (c != channel && c->port == channel->port && c->uid == channel->uid &&
            strcmp(c->owner, channel->owner) == 0 && strcmp(c->job, channel->job) == 0)
            return false;
    return true;
}

void call_open_channel(struct service *service, struct service_call *call,
                       const struct service_request *request)
{
    const Muster__OpenChannelRequest *message = (const void *)request->message;
    struct error err = {0};
    struct channel_wish wish;
    struct channel *channel = NULL;
    service_trace(call, message->id, "");
    int rc = read_wish(call, message, &wish, &err);
    if (!rc)
        rc = open_channel(call, &wish, &channel, &err);
    if (rc) {
        service_fail(call, &err);
        return;
    }
    char text[256];
    (void)str_printf(text, sizeof(text), "%s opened %s beside rank %d", channel->user,
                     channel->words, channel->rank);
    service_trace(call, channel->job, text);
    channel->request = call->id;
    struct channel_note note = {.job = channel->job,
                                .node = channel->node,
                                .rank = channel->rank,
                                .quiet =
                                    channel->port && !is_first_of_its_kind(service->relay, channel),
                                .text = text};
    struct event event = {.kind = EVENT_JOB_CHANNEL, .request = call->id, .job_channel = &note};
    service->options.host.step(service->options.host.self, &event);
}

static struct channel *opened_by(const struct relay *relay, const struct service_call *call)
{
    for (struct channel *c = relay_first(relay); c; c = relay_next(relay, c))
        if (c->request == call->id)
            return c;
    return NULL;
}

/* It is on record now, so its agent may open it. */
void done_channel(struct service *service, struct service_call *call, const struct action *action)
{
    (void)action;
    struct channel *channel = opened_by(service->relay, call);
    insist(channel); /* only a sweep after seconds forgets it, and this call is as young */
    channel->request = 0;
    channel->announced = true;
    service_wake(service, WAIT_NODE, channel->node);
    channels_changed(service);
    Muster__Channel answer;
    wire_channel(service, channel, &answer);
    service_answer(call, &answer.base);
}

/* The caller's own, NULL with err set: an id of others is answered as one that never was. */
static struct channel *own_channel(struct service_call *call, const char *id, struct error *err)
{
    struct channel *channel = relay_of_owner(call->service->relay, id, call->caller->id);
    if (channel)
        channel->client_ms = service_now_ms(call->service);
    else
        error_set(err, E_NOT_FOUND,
                  "there is no such channel: it has ended, or the coordinator "
                  "was restarted");
    return channel;
}

static void close_channel(struct service *service, struct channel *channel)
{
    (void)channel_stop(channel, service_now_ms(service), "its client closed it");
    channel->left = true;
    channels_changed(service);
}

static void set_window(struct service *service, struct channel *channel, uint32_t rows,
                       uint32_t columns)
{
    if (rows == 0 || columns == 0 || rows > CHANNEL_SIDE_MAX || columns > CHANNEL_SIDE_MAX ||
        (rows == channel->rows && columns == channel->columns))
        return;
    channel->rows = rows;
    channel->columns = columns;
    channels_wake(service, channel, CHANNEL_IN);
}

/* What is sent to a program that has ended is dropped. */
static int send_bytes(struct service *service, struct channel *channel,
                      const Muster__SendChannelRequest *message, struct error *err)
{
    struct relay_pipe *pipe = &channel->pipes[CHANNEL_IN];
    struct relay_bytes bytes = {message->data.data, message->data.len};
    uint64_t before = pipe->accepted;
    if (channel->over)
        return 0;
    if (bytes.size > CHUNK_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "data: at most %d bytes at once", CHUNK_MAX);
    int rc = relay_pipe_put(pipe, service_now_ms(service), message->offset, &bytes, err);
    if (rc)
        return rc;
    bool ends = message->end && !pipe->ended && pipe->accepted == message->offset + bytes.size;
    if (ends)
        relay_pipe_end(pipe);
    if (pipe->accepted != before)
        channel->used_ms = service_now_ms(service);
    if (ends || pipe->accepted != before)
        channels_wake(service, channel, CHANNEL_IN);
    return 0;
}

void call_send_channel(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__SendChannelRequest *message = (const void *)call->request;
    Muster__SendChannelAnswer answer = MUSTER__SEND_CHANNEL_ANSWER__INIT;
    struct error err = {0};
    struct channel *channel = own_channel(call, message->id, &err);
    if (channel && message->close)
        close_channel(service, channel);
    if (channel)
        set_window(service, channel, message->rows, message->columns);
    if (!channel || send_bytes(service, channel, message, &err)) {
        service_fail(call, &err);
        return;
    }
    const struct relay_pipe *pipe = &channel->pipes[CHANNEL_IN];
    answer.offset = channel->over ? message->offset + message->data.len : pipe->accepted;
    if (message->data.len > 0 && answer.offset <= message->offset && !last_chance)
        channels_wait(call, channel, CHANNEL_IN,
                      relay_pipe_is_full(pipe) ? INT64_MAX
                                               : service_now_ms(service) + RELAY_RATE_WAIT_MS);
    else
        service_answer(call, &answer.base);
}

static ProtobufCBinaryData wire_bytes(const struct relay_bytes *bytes)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)bytes->data, .len = bytes->size};
}

static void wire_end(const struct channel *channel, Muster__ChannelEnd *ret)
{
    muster__channel_end__init(ret);
    ret->exited = channel->end.exited;
    ret->code = channel->end.code;
    ret->signal = channel->end.signal;
    ret->text = rpc_text(channel->end.text);
}

void call_receive_channel(struct service *service, struct service_call *call, bool last_chance)
{
    const Muster__ReceiveChannelRequest *message = (const void *)call->request;
    Muster__ReceiveChannelAnswer answer = MUSTER__RECEIVE_CHANNEL_ANSWER__INIT;
    Muster__ChannelEnd end;
    struct error err = {0};
    struct relay_bytes out, errors;
    struct channel *channel = own_channel(call, message->id, &err);
    struct relay_pipe *pipes = channel ? channel->pipes : NULL;
    uint64_t held =
        channel ? relay_pipe_held(&pipes[CHANNEL_OUT]) + relay_pipe_held(&pipes[CHANNEL_ERRORS])
                : 0;
    if (!channel || relay_pipe_get(&pipes[CHANNEL_OUT], message->offset, &out, &err) ||
        relay_pipe_get(&pipes[CHANNEL_ERRORS], message->errors_offset, &errors, &err)) {
        service_fail(call, &err);
        return;
    }
    if (held > relay_pipe_held(&pipes[CHANNEL_OUT]) + relay_pipe_held(&pipes[CHANNEL_ERRORS]))
        channels_wake(service, channel, CHANNEL_OUT); /* there is room for its agent's bytes */
    bool any = out.size + errors.size > 0;
    if (!any && !channel->over && !last_chance) {
        channels_wait(call, channel, CHANNEL_OUT, service_now_ms(service) + CLIENT_AGAIN_MS);
        return;
    }
    answer.data = wire_bytes(&out);
    answer.errors = wire_bytes(&errors);
    if (!any && channel->over) {
        wire_end(channel, &end);
        answer.end = &end;
    }
    service_answer(call, &answer.base);
}

void call_list_channels(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const Muster__ListChannelsRequest *message = (const void *)call->request;
    Muster__ListChannelsAnswer answer = MUSTER__LIST_CHANNELS_ANSWER__INIT;
    const char *tenant = scope_tenant(call);
    const struct job *job = NULL;
    struct error err = {0};
    struct arena arena;
    if (*message->id && !(job = service_find_job(call, message->id, &err))) {
        service_fail(call, &err);
        return;
    }
    arena_init(&arena, LIST_ARENA_MAX_BYTES);
    Muster__Channel *list = arena_array(&arena, MAX_CHANNELS, sizeof(*list));
    answer.channels = arena_pointers(&arena, MAX_CHANNELS);
    bool whole = list && answer.channels;
    for (struct channel *c = relay_first(service->relay); whole && c;
         c = relay_next(service->relay, c)) {
        if (c->over || (job && strcmp(c->job, job->id) != 0) ||
            (tenant && strcmp(c->tenant, tenant) != 0))
            continue;
        wire_channel(service, c, &list[answer.n_channels]);
        answer.channels[answer.n_channels] = &list[answer.n_channels];
        answer.n_channels++;
    }
    service_answer_whole(call, whole, &answer.base);
    arena_fini(&arena);
}
