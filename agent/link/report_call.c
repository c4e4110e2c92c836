#include "agent/link/report_call.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/rpc/client.h"
#include "common/rpc/message.h"
#include "common/rpc/server.h"
#include "proto/node.pb-c.h"

static const uint64_t OURS = 1ULL << 62; /* numbers of the workers' hub never reach this */

bool report_socket_owns(uint64_t request)
{
    return request & OURS;
}

int report_call_new(struct reporter *r, struct lines_peer *peer, const struct report_line *line,
                    struct report_call **ret, struct error *err)
{
    struct report_socket *all = r->all;
    if (r->calls >= REPORT_CALLS_MAX || all->calls.count >= REPORT_CALLS_ALL_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED,
                         "%d requests of this worker wait (at most %d), %zu of this node (%d)",
                         r->calls, REPORT_CALLS_MAX, all->calls.count, REPORT_CALLS_ALL_MAX);
    struct report_call *call = calloc(1, sizeof(*call));
    if (call)
        *call = (struct report_call){.number = OURS | ++all->last_call,
                                     .reporter = r,
                                     .peer = peer,
                                     .all = all,
                                     .id = line->has_id ? line->id : -1,
                                     .kind = line->kind};
    if (!call || map_set(&all->calls, call->number, call, NULL)) {
        free(call);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a request");
    }
    r->calls++;
    *ret = call;
    return 0;
}

void report_call_end(struct report_call *call)
{
    if (call->reporter)
        call->reporter->calls--;
    if (call->all)
        map_remove(&call->all->calls, call->number);
    free(call->path);
    free(call);
}

static void call_fail(struct report_call *call, const struct error *err)
{
    struct error said = *err;
    if (said.code == E_NOT_FOUND) /* the coordinator does not know this node yet */
        said.code = E_UNAVAILABLE;
    if (call->reporter)
        reporter_fail(call->reporter, call->peer, call->id, &said);
    report_call_end(call);
}

static void pass_on(struct report_call *call, const char *method, const ProtobufCMessage *request,
                    int64_t timeout_ms, rpc_done done)
{
    struct error err = {0};
    /* Both methods may run twice: a commit is known by its generation and step. */
    struct rpc_options options = {.timeout_ms = timeout_ms, .retry = true};
    if (rpc_client_call(call->all->upstream, &muster__nodes__descriptor, method, request, &options,
                        done, call, &err))
        call_fail(call, &err);
}

static void say_prune(struct report_call *call, const Muster__CommitCheckpointAnswer *answer)
{
    struct buf out;
    if (call->id < 0)
        return;
    buf_init(&out, LINES_BYTES);
    report_open(&out, call->id);
    (void)buf_str(&out, ", \"prune\": [");
    for (size_t i = 0; i < answer->n_prune; i++) {
        (void)buf_str(&out, i ? ", " : "");
        (void)buf_json_string(&out, answer->prune[i], strlen(answer->prune[i]));
    }
    (void)buf_char(&out, ']');
    report_close(&out);
    reporter_say(call->reporter, call->peer, &out);
    buf_fini(&out);
}

static void on_committed(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct report_call *call = arg;
    struct reporter *r = call->reporter;
    if (err->code) {
        call_fail(call, err);
        return;
    }
    if (r && call->path)
        reporter_committed(r, call->path, call->step);
    if (r && call->peer && call->path)
        say_prune(call, (const Muster__CommitCheckpointAnswer *)answer);
    else if (r)
        reporter_done(r, call->peer, call->id);
    report_call_end(call);
}

void report_call_checkpoint(struct report_call *call, const struct agent_worker *worker,
                            const struct report_line *line)
{
    struct report_socket *all = call->all;
    Muster__CommitCheckpointRequest request = MUSTER__COMMIT_CHECKPOINT_REQUEST__INIT;
    Muster__Checkpoint checkpoint = MUSTER__CHECKPOINT__INIT;
    bool whole = line->phase == REPORT_WHOLE;
    struct error err = {0};
    request.job = call->reporter->key.job;
    request.uid = call->reporter->key.uid;
    request.phase = whole ? MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__done
                          : MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__prepare;
    request.checkpoint = &checkpoint;
    request.node = all->node;
    request.incarnation = all->incarnation;
    call->step = line->has_step ? line->step : call->reporter->step;
    checkpoint.step = call->step;
    checkpoint.path = rpc_text(line->path);
    checkpoint.generation = reporter_generation(worker);
    checkpoint.wall_ms = all->env->clock.wall_ms(all->env->clock.self);
    checkpoint.size_bytes = line->bytes;
    checkpoint.world = worker->assignment->world;
    if (whole && !(call->path = strdup(line->path))) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "no memory for a checkpoint");
        call_fail(call, &err);
        return;
    }
    pass_on(call, "CommitCheckpoint", &request.base, REPORT_FORWARD_MS, on_committed);
}

static void on_board(void *arg, const struct error *err, const ProtobufCMessage *message)
{
    struct report_call *call = arg;
    const Muster__BoardAnswer *answer = (const void *)message;
    struct buf out;
    bool late = err->code == E_DEADLINE_EXCEEDED && call->waits; /* there is no such key */
    if (err->code && !late) {
        call_fail(call, err);
        return;
    }
    if (call->reporter && call->kind == REPORT_PUT)
        reporter_done(call->reporter, call->peer, call->id);
    if (call->reporter && call->peer && call->id >= 0 && call->kind == REPORT_GET) {
        buf_init(&out, LINES_BYTES);
        report_open(&out, call->id);
        report_put_flag(&out, "found", !late && answer->found);
        (void)buf_str(&out, ", \"value\": ");
        if (!late && answer->found)
            (void)buf_json_string(&out, (const char *)answer->value.data, answer->value.len);
        else
            (void)buf_str(&out, "null");
        report_close(&out);
        reporter_say(call->reporter, call->peer, &out);
        buf_fini(&out);
    }
    report_call_end(call);
}

void report_call_board(struct report_call *call, const struct agent_worker *worker,
                       const struct report_line *line)
{
    Muster__BoardRequest request = MUSTER__BOARD_REQUEST__INIT;
    int64_t wait_ms = (int64_t)(line->wait_s * 1000);
    request.job = call->reporter->key.job;
    request.uid = call->reporter->key.uid;
    request.generation = reporter_generation(worker);
    request.key = rpc_text(line->key);
    request.set = line->kind == REPORT_PUT;
    request.wait = call->waits = wait_ms > 0;
    request.node = call->all->node;
    request.incarnation = call->all->incarnation;
    if (request.set) {
        request.value.data = (uint8_t *)(uintptr_t)line->value;
        request.value.len = strlen(line->value);
    }
    wait_ms += RPC_SERVER_LONG_POLL_MARGIN_MS; /* it answers this long before the time is up */
    pass_on(call, "Board", &request.base, call->waits ? wait_ms : REPORT_FORWARD_MS, on_board);
}

void report_calls_forget_peer(struct report_socket *all, const struct lines_peer *peer)
{
    for (struct map_entry *e = map_first(&all->calls); e; e = map_next(e)) {
        struct report_call *call = e->value;
        if (call->peer == peer)
            call->peer = NULL;
    }
}

void report_calls_forget_worker(struct report_socket *all, const struct reporter *r)
{
    for (struct map_entry *e = map_first(&all->calls); e; e = map_next(e)) {
        struct report_call *call = e->value;
        if (call->reporter == r) {
            call->reporter = NULL;
            call->peer = NULL;
        }
    }
}

void report_calls_leave(struct report_socket *all)
{
    for (struct map_entry *e = map_first(&all->calls), *next; e; e = next) {
        struct report_call *call = e->value;
        next = map_next(e);
        call->all = NULL;
        call->reporter = NULL;
        call->peer = NULL;
        if (call->kind == REPORT_JOIN) /* the core has it, and forgets it with the agent */
            report_call_end(call);
    }
    map_fini(&all->calls);
}
