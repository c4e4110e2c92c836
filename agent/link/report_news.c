#include "agent/link/report_news.h"

static void say_stop(struct reporter *r, struct lines_peer *peer, const struct report_stop *stop)
{
    struct buf out;
    buf_init(&out, LINES_BYTES);
    report_open(&out, -1);
    report_put_text(&out, "event", "stop");
    report_put_stop(&out, stop);
    report_close(&out);
    reporter_say(r, peer, &out);
    buf_fini(&out);
}

static void say_count(struct reporter *r, struct lines_peer *peer, const char *event,
                      const char *name, uint64_t count)
{
    struct buf out;
    buf_init(&out, LINES_BYTES);
    report_open(&out, -1);
    report_put_text(&out, "event", event);
    report_put_count(&out, name, count);
    report_close(&out);
    reporter_say(r, peer, &out);
    buf_fini(&out);
}

void report_news_say(struct reporter *r, const struct agent_worker *worker, struct lines_peer *peer)
{
    struct report_peer *of = *lines_data(peer);
    uint64_t wanted = worker->assignment->generation;
    struct report_place place = reporter_place(r, worker);
    if (!of)
        return;
    if (place.stop.stop && !of->told_stop) {
        of->told_stop = true;
        say_stop(r, peer, &place.stop);
    }
    if (worker->memory.aware && wanted > worker->memory.generation && worker->memory.generation &&
        wanted > of->told_generation) {
        of->told_generation = wanted;
        say_count(r, peer, "generation", "generation", wanted);
    }
}

void report_news_say_all(struct reporter *r)
{
    struct error err = {0};
    const struct agent_worker *worker = reporter_worker(r, &err);
    if (!worker)
        return;
    for (struct lines_peer *peer = lines_first(r->lines); peer; peer = lines_next(peer))
        report_news_say(r, worker, peer);
}

void report_news_say_dropped(struct reporter *r)
{
    int64_t now_ms = loop_now_ms(r->all->loop);
    if (r->dropped == r->told_dropped ||
        (r->told_dropped_ms && now_ms < r->told_dropped_ms + REPORT_DROPPED_MS))
        return;
    r->told_dropped = r->dropped;
    r->told_dropped_ms = now_ms;
    for (struct lines_peer *peer = lines_first(r->lines); peer; peer = lines_next(peer))
        if (*lines_data(peer))
            say_count(r, peer, "dropped", "count", r->told_dropped);
}
