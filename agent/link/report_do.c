#include "agent/link/report_do.h"

#include "agent/link/report_call.h"
#include "agent/link/report_number.h"
#include "agent/link/report_stacks.h"

static void on_hello(const struct report_said *said)
{
    struct buf out;
    struct reporter *r = said->r;
    if (said->line->protocol > REPORT_PROTOCOL) {
        struct error err = {0};
        error_set(&err, E_INVALID_ARGUMENT, "protocol %llu: this agent speaks %d",
                  (unsigned long long)said->line->protocol, REPORT_PROTOCOL);
        reporter_fail(r, said->peer, said->line->has_id ? said->line->id : -1, &err);
        return;
    }
    if (said->line->has_total)
        r->total_steps = said->line->total_steps;
    if (said->line->elastic) {
        struct agent_event event = {.kind = AGENT_EVENT_HELLO, .key = r->key};
        r->all->events.event(r->all->events.arg, &event);
    }
    if (!said->line->has_id)
        return;
    struct report_place place = reporter_place(r, said->worker);
    buf_init(&out, LINES_BYTES);
    report_open(&out, said->line->id);
    report_put_place(&out, &place);
    report_close(&out);
    reporter_say(r, said->peer, &out);
    buf_fini(&out);
}

static void on_latest(const struct report_said *said)
{
    struct buf out;
    struct report_place place = reporter_place(said->r, said->worker);
    buf_init(&out, LINES_BYTES);
    report_open(&out, said->line->id);
    report_put_text(&out, "path", place.latest);
    if (place.has_latest_step)
        report_put_count(&out, "step", place.latest_step);
    else
        report_put_text(&out, "step", "");
    report_close(&out);
    reporter_say(said->r, said->peer, &out);
    buf_fini(&out);
}

static void on_should_stop(const struct report_said *said)
{
    struct buf out;
    struct report_place place = reporter_place(said->r, said->worker);
    buf_init(&out, LINES_BYTES);
    report_open(&out, said->line->id);
    report_put_stop(&out, &place.stop);
    report_close(&out);
    reporter_say(said->r, said->peer, &out);
    buf_fini(&out);
}

static void on_join(const struct report_said *said, struct report_call *call)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_JOIN,
        .key = said->r->key,
        .request = call->number,
        .deadline_ms = loop_now_ms(said->r->all->loop) + REPORT_JOIN_MS,
        .join = {.generation = said->line->generation,
                 .step = said->line->step,
                 .endpoint = said->line->endpoint[0] ? said->line->endpoint : "-"}};
    said->r->all->events.event(said->r->all->events.arg, &event);
}

static void on_lost(const struct report_said *said)
{
    struct agent_event event = {.kind = AGENT_EVENT_LOST_PEERS,
                                .key = said->r->key,
                                .lost_peers = {.generation = said->line->generation,
                                               .ranks = said->line->ranks,
                                               .count = said->line->ranks_count}};
    said->r->all->events.event(said->r->all->events.arg, &event);
}

/* Calls that wait: they are answered when the coordinator or the core has answered. */
static void on_waiting(const struct report_said *said)
{
    struct report_call *call;
    struct error err = {0};
    const struct report_line *line = said->line;
    if (line->kind == REPORT_JOIN && !said->worker->memory.aware)
        error_set(&err, E_FAILED_PRECONDITION, "join: say hello with \"elastic\": true first");
    if (err.code || report_call_new(said->r, said->peer, line, &call, &err)) {
        reporter_fail(said->r, said->peer, line->has_id ? line->id : -1, &err);
        if (!line->has_id)
            reporter_drop(said->r, 1);
        return;
    }
    if (line->kind == REPORT_JOIN)
        on_join(said, call);
    else if (line->kind == REPORT_CHECKPOINT)
        report_call_checkpoint(call, said->worker, line);
    else
        report_call_board(call, said->worker, line);
}

void report_perform(const struct report_said *said)
{
    struct reporter *r = said->r;
    const struct report_line *line = said->line;
    switch (line->kind) {
    case REPORT_HELLO:
        on_hello(said);
        return;
    case REPORT_STEP:
        reporter_samples(r, said->worker, line);
        reporter_step(r, line);
        break;
    case REPORT_METRIC:
        reporter_samples(r, said->worker, line);
        break;
    case REPORT_PAUSE:
        reporter_pause(r, (int64_t)(line->for_s * 1000));
        break;
    case REPORT_CHECKPOINT:
        reporter_saves(r, line->phase == REPORT_BEGIN);
        if (line->phase == REPORT_FAILED)
            break;
        on_waiting(said);
        return;
    case REPORT_LATEST:
        if (line->has_id)
            on_latest(said);
        return;
    case REPORT_SHOULD_STOP:
        if (line->has_id)
            on_should_stop(said);
        return;
    case REPORT_PUT:
    case REPORT_GET:
    case REPORT_JOIN:
        on_waiting(said);
        return;
    case REPORT_DONE:
        reporter_flush(r);
        break;
    case REPORT_STACKS:
        report_stacks_offer(r, said->peer, line);
        return;
    case REPORT_LOST:
        on_lost(said);
        break;
    case REPORT_KINDS_COUNT:
        break;
    }
    reporter_done(r, said->peer, line->has_id ? line->id : -1);
}
