#include "agent/link/report_socket.h"

#include <stdlib.h>
#include <string.h>

#include "agent/link/report_call.h"
#include "agent/link/report_do.h"
#include "agent/link/report_news.h"
#include "agent/link/report_number.h"
#include "agent/link/report_stacks.h"
#include "agent/link/report_state.h"
#include "common/base/murmur3.h"
#include "common/base/str.h"

enum { LINE_ARENA_BYTES = 1 << 20 };

/* join and lost name the generation that they are about. */
static int check_generation(const struct report_line *line, const struct agent_worker *worker,
                            struct error *err)
{
    uint64_t is = reporter_generation(worker);
    if (!line->generation || line->generation == is || line->kind == REPORT_JOIN ||
        line->kind == REPORT_LOST)
        return 0;
    return error_set(err, E_ABORTED, "generation %llu: this worker is in %llu",
                     (unsigned long long)line->generation, (unsigned long long)is);
}

static void read_line(struct reporter *r, struct lines_peer *peer, const char *text, size_t size)
{
    struct report_line line;
    struct arena arena;
    struct error err = {0};
    struct report_said said = {.r = r, .peer = peer, .line = &line};
    arena_init(&arena, LINE_ARENA_BYTES);
    int rc = report_line_parse(text, size, &arena, &line, &err);
    if (!peer && (line.has_id || line.kind != REPORT_STEP)) /* held, and not what it looked like */
        rc = E_INVALID_ARGUMENT;
    if (!rc && !(said.worker = reporter_worker(r, &err)))
        rc = err.code;
    if (!rc)
        rc = check_generation(&line, said.worker, &err);
    if (rc) {
        reporter_fail(r, peer, line.has_id ? line.id : -1, &err);
        if (!line.has_id)
            reporter_drop(r, 1);
    } else {
        report_perform(&said);
        /* The coordinator does not have to wait for a Hello of libworker. */
        if (!said.worker->reports && !said.worker->memory.aware && line.kind != REPORT_STACKS)
            r->dirty = true;
    }
    arena_fini(&arena);
}

/* Events of the lines */

static void know_peer(struct reporter *r, struct lines_peer *peer)
{
    struct error err = {0};
    void **data = lines_data(peer);
    const struct agent_worker *worker;
    if (*data || !(*data = calloc(1, sizeof(struct report_peer))))
        return;
    if ((worker = reporter_worker(r, &err)))
        report_news_say(r, worker, peer);
}

/* The held line is older than any that arrives. */
static void release_line(struct reporter *r)
{
    size_t size = r->held_size;
    r->held_size = 0;
    if (size > 0)
        read_line(r, NULL, r->held, size);
}

static void on_flood_over(void *arg)
{
    struct reporter *r = arg;
    release_line(r);
    reporter_flush_soon(r);
}

/* Over the rate nothing is parsed. The newest step is kept: the last one of a flood counts. */
static void hold_line(struct reporter *r, struct lines_peer *peer, const char *text, size_t size)
{
    struct loop *loop = r->all->loop;
    struct error err = {0};
    int64_t id = report_line_asks(text, size);
    bool steps = id < 0 && report_line_steps(text, size);
    if (id >= 0) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "more than %d lines a second", REPORT_LINES_PER_S);
        reporter_fail(r, peer, id, &err);
    }
    if (!steps || r->held_size > 0)
        reporter_drop(r, 1);
    if (!steps || (!r->held && !(r->held = malloc(LINES_BYTES + 1))))
        return;
    memcpy(r->held, text, size);
    r->held[size] = '\0';
    r->held_size = size;
    if (!loop_timer_armed(&r->release))
        loop_timer_set(loop, &r->release, loop_now_ms(loop) + REPORT_BEAT_MS, on_flood_over, r);
}

static void on_line(void *arg, struct lines_peer *peer, char *text, size_t size)
{
    struct reporter *r = arg;
    know_peer(r, peer);
    if (report_rate_take(&r->lines_rate, loop_now_ms(r->all->loop), REPORT_LINES_PER_S,
                         REPORT_LINES_BURST)) {
        release_line(r);
        read_line(r, peer, text, size);
    } else {
        hold_line(r, peer, text, size);
    }
    if (r->dropped != r->told_dropped)
        report_news_say_dropped(r);
    reporter_flush_soon(r);
}

static void on_too_long(void *arg, struct lines_peer *peer)
{
    struct reporter *r = arg;
    struct error err = {0};
    know_peer(r, peer);
    reporter_drop(r, 1);
    error_set(&err, E_INVALID_ARGUMENT, "a line has at most %d bytes", LINES_BYTES);
    reporter_fail(r, peer, -1, &err);
    report_news_say_dropped(r);
    reporter_flush_soon(r);
}

static void on_text(void *arg, struct lines_peer *peer, const char *bytes, size_t size)
{
    report_stacks_add(arg, peer, bytes, size);
}

static void on_gone(void *arg, struct lines_peer *peer)
{
    struct reporter *r = arg;
    reporter_flush(r); /* its last step, if it has ended */
    report_calls_forget_peer(r->all, peer);
    report_stacks_end(peer);
    free(*lines_data(peer));
    *lines_data(peer) = NULL;
}

/* Answers of the core */

static void answer_join(struct report_call *call, const struct agent_action *action)
{
    struct buf out;
    struct error err = {0};
    struct reporter *r = call->reporter;
    const struct agent_worker *worker = reporter_worker(r, &err);
    struct report_place place = {0};
    buf_init(&out, LINES_BYTES);
    report_open(&out, call->id);
    report_put_flag(&out, "ready", action->answer.ready);
    if (action->answer.ready && worker) {
        place = reporter_place(r, worker);
        place.assignment = action->assignment;
        place.generation = action->answer.generation;
        report_put_place(&out, &place);
    } else {
        report_put_count(&out, "generation", action->answer.generation);
        report_put_flag(&out, "stop", action->answer.stop);
    }
    report_close(&out);
    reporter_say(r, call->peer, &out);
    buf_fini(&out);
}

void report_socket_answer(struct report_socket *all, const struct agent_action *action)
{
    struct report_call *call = map_get(&all->calls, action->request);
    if (!call)
        return;
    if (call->peer && action->kind == AGENT_ACTION_REFUSE)
        reporter_fail(call->reporter, call->peer, call->id, action->error);
    else if (call->peer && call->id >= 0)
        answer_join(call, action);
    report_call_end(call);
}

void report_socket_settle(struct report_socket *all)
{
    struct reporter *r;
    list_each(r, &all->reporters, link)
        report_news_say_all(r);
}

/* Life */

static struct reporter *find_reporter(const struct report_socket *all, const struct worker_key *key)
{
    struct reporter *r;
    list_each(r, &all->reporters, link)
        if (r->key.uid == key->uid && strcmp(r->key.job, key->job) == 0)
            return r;
    return NULL;
}

int report_socket_path(const struct report_socket *all, const struct worker_key *key,
                       char ret[REPORT_SOCKET_MAX_BYTES])
{
    char name[sizeof(key->job) + 24];
    uint64_t digest[2];
    if (!all || !all->prefix[0])
        return E_NOT_FOUND;
    /* By the key, so that a later agent listens at the path that the worker's programs have. */
    (void)str_printf(name, sizeof(name), "%s.%llu", key->job, (unsigned long long)key->uid);
    murmur3(name, strlen(name), digest);
    return str_printf(ret, REPORT_SOCKET_MAX_BYTES, "%s%012llx", all->prefix,
                      (unsigned long long)(digest[0] >> 16));
}

int report_socket_open(struct report_socket *all, const struct worker_key *key, int64_t owner,
                       struct error *err)
{
    char path[REPORT_SOCKET_MAX_BYTES];
    if (find_reporter(all, key))
        return 0;
    int rc = report_socket_path(all, key, path);
    if (rc)
        return error_set(err, rc, "there is no place for sockets of reports");
    struct reporter *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a worker's reports");
    *r = (struct reporter){.all = all, .key = *key};
    buf_init(&r->stacks, REPORT_STACKS_BYTES);
    struct lines_options options = {
        .path = path,
        .owner = owner,
        .events = {r, on_line, on_too_long, on_text, on_gone},
    };
    rc = lines_new(&options, all->loop, &r->lines, err);
    if (rc) {
        free(r);
        return rc;
    }
    list_push_back(&all->reporters, &r->link);
    return 0;
}

static void reporter_free(struct reporter *r)
{
    loop_timer_cancel(r->all->loop, &r->beat);
    loop_timer_cancel(r->all->loop, &r->release);
    loop_timer_cancel(r->all->loop, &r->watch);
    loop_timer_cancel(r->all->loop, &r->stacks_timer);
    buf_fini(&r->stacks);
    report_calls_forget_worker(r->all, r);
    for (struct lines_peer *peer = lines_first(r->lines); peer; peer = lines_next(peer)) {
        report_stacks_end(peer);
        free(*lines_data(peer));
    }
    list_remove(&r->link);
    free(r->held);
    free(r);
}

bool report_socket_take_stacks(struct report_socket *all, const struct worker_key *key)
{
    struct reporter *r = find_reporter(all, key);
    return r && report_stacks_take(r);
}

void report_socket_set_stacks(struct report_socket *all, const struct worker_key *key,
                              const char *text)
{
    struct reporter *r = find_reporter(all, key);
    if (r)
        report_stacks_place(r, text);
}

void report_socket_close(struct report_socket *all, const struct worker_key *key)
{
    struct reporter *r = find_reporter(all, key);
    if (!r)
        return;
    struct lines *lines = r->lines;
    reporter_free(r);
    lines_free(lines);
}

int report_socket_new(const struct report_options *options, struct env *env, struct loop *loop,
                      struct report_socket **ret, struct error *err)
{
    struct report_socket *all = calloc(1, sizeof(*all));
    if (!all)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for reports");
    all->env = env;
    all->loop = loop;
    all->upstream = options->upstream;
    all->events = options->events;
    all->incarnation = options->incarnation;
    list_init(&all->reporters);
    (void)str_copy(all->node, sizeof(all->node), options->node);
    if (str_copy(all->prefix, sizeof(all->prefix), options->prefix)) {
        free(all);
        return error_set(err, E_INVALID_ARGUMENT, "%s is too long for sockets", options->prefix);
    }
    *ret = all;
    return 0;
}

void report_socket_free(struct report_socket *all)
{
    if (!all)
        return;
    report_calls_leave(all);
    for (struct reporter *r; (r = list_first(&all->reporters, struct reporter, link));) {
        struct lines *lines = r->lines;
        reporter_free(r);
        lines_leave(lines);
    }
    free(all);
}
