#include "coordinator/api_rest/stream.h"

#include <string.h>

#include "common/base/parse.h"
#include "common/rpc/message.h"
#include "coordinator/api_rest/render.h"
#include "proto/client.pb-c.h"

static void read_last_id(struct stream *stream)
{
    const char *text = http_header(stream->request, "Last-Event-ID");
    int64_t id;
    if (!text || parse_i64(text, 0, INT64_MAX, &id, NULL))
        return;
    switch (stream->route->stream) {
    case ROUTE_STREAM_EVENTS:
        ((Muster__ListEventsRequest *)stream->message)->after = (uint64_t)id;
        return;
    case ROUTE_STREAM_LOGS:
        ((Muster__GetLogsRequest *)stream->message)->cursor = (uint64_t)id;
        return;
    case ROUTE_STREAM_JOB:
    case ROUTE_NO_STREAM:
        return;
    }
}

void stream_init(struct stream *stream, const struct route *route, struct http_request *request,
                 ProtobufCMessage *message)
{
    *stream = (struct stream){.route = route, .request = request, .message = message};
    read_last_id(stream);
}

void stream_fini(struct stream *stream)
{
    rpc_message_free(stream->message);
    stream->message = NULL;
}

static void on_gone(void *arg)
{
    struct stream *stream = arg;
    stream->gone = true;
}

static void start_stream(struct stream *stream)
{
    struct http_answer answer = {
        .status = 200,
        .type = "text/event-stream",
        .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}},
    };
    http_stream(stream->request, &answer, on_gone, stream);
    stream->started = true;
}

/* Each writes its kind of answer, prepares the next call, and returns whether there is one. */

static bool put_job(struct stream *stream, const Muster__Job *job, struct buf *out)
{
    Muster__WatchJobRequest *next = (Muster__WatchJobRequest *)stream->message;
    if (job->version != next->version) {
        struct sse event = {.name = "job", .id = job->version, .message = &job->base};
        (void)render_sse(&event, out);
    }
    next->version = job->version;
    return job->ended_wall_ms == 0;
}

static bool put_logs(struct stream *stream, const Muster__GetLogsAnswer *answer, struct buf *out)
{
    Muster__GetLogsRequest *next = (Muster__GetLogsRequest *)stream->message;
    for (size_t i = 0; i < answer->n_lines; i++) {
        struct sse event = {.message = &answer->lines[i]->base};
        if (i + 1 == answer->n_lines)
            event.id = answer->cursor;
        (void)render_sse(&event, out);
    }
    next->cursor = answer->cursor;
    next->tail_lines = 0;
    next->follow = true;
    return !answer->ended;
}

static bool put_events(struct stream *stream, const Muster__ListEventsAnswer *answer,
                       struct buf *out)
{
    Muster__ListEventsRequest *next = (Muster__ListEventsRequest *)stream->message;
    for (size_t i = 0; i < answer->n_events; i++) {
        struct sse event = {.id = answer->events[i]->seq, .message = &answer->events[i]->base};
        (void)render_sse(&event, out);
    }
    next->after = answer->next;
    next->follow = true;
    return true;
}

static bool put_message(struct stream *stream, const ProtobufCMessage *answer, struct buf *out)
{
    switch (stream->route->stream) {
    case ROUTE_STREAM_JOB:
        return put_job(stream, (const Muster__Job *)answer, out);
    case ROUTE_STREAM_LOGS:
        return put_logs(stream, (const Muster__GetLogsAnswer *)answer, out);
    case ROUTE_STREAM_EVENTS:
        return put_events(stream, (const Muster__ListEventsAnswer *)answer, out);
    case ROUTE_NO_STREAM:
        break;
    }
    return false;
}

static void put_error(const struct error *err, struct buf *out)
{
    (void)buf_printf(
        out, "event: error\ndata: {\"error\":{\"code\":\"%s\",\"message\":", error_name(err->code));
    (void)buf_json_string(out, err->text, strlen(err->text));
    (void)buf_str(out, "}}\n\n");
}

void stream_close(struct stream *stream, const struct error *err)
{
    struct buf out;
    stream->ended = true;
    if (!stream->started) {
        reply_error(stream->request, err);
        return;
    }
    buf_init(&out, HTTP_STREAM_BACKLOG_MAX_BYTES);
    put_error(err, &out);
    if (!buf_failed(&out) && !stream->gone)
        (void)http_stream_write(stream->request, out.data, out.size);
    buf_fini(&out);
    http_stream_end(stream->request);
}

bool stream_answer(struct stream *stream, const struct error *err, const ProtobufCMessage *answer)
{
    if (stream->ended)
        return false;
    if (err && !stream->started) {
        reply_error(stream->request, err);
        return false;
    }
    if (!stream->started)
        start_stream(stream);
    bool more = false;
    struct buf out;
    buf_init(&out, HTTP_STREAM_BACKLOG_MAX_BYTES);
    if (err) {
        put_error(err, &out);
    } else {
        more = put_message(stream, answer, &out);
        if (!more)
            (void)buf_str(&out, "event: end\ndata: {}\n\n");
    }
    if (out.size == 0)
        (void)buf_str(&out, ": ping\n\n");
    bool written = !buf_failed(&out) && !stream->gone &&
                   http_stream_write(stream->request, out.data, out.size);
    buf_fini(&out);
    if (more && written)
        return true;
    http_stream_end(stream->request);
    return false;
}
