#include "tests/conformance/net/net_suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/loop/loop.h"

enum {
    OPEN_MAX = 256,
    PATIENCE_MS = 300000, /* of what hangs */
    STEP_MS = 2,
    CALL_MS = 200000,
};

#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("    %s:%d: expected %s\n", __FILE__, __LINE__, #condition);                    \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

/* ---- a server that keeps what it got, and callers that keep what became of them ---- */

struct request {
    uint64_t number, peer;
    size_t size;
    char text[32];
};

struct server {
    struct net *net;
    struct net_listener *listener;
    bool echo; /* answer at once with the request */
    struct request open[OPEN_MAX];
    int open_count, open_most, seen;
    uint64_t gone[OPEN_MAX];
    int gone_count;
};

struct caller {
    int completions;
    int code;
    size_t size;
    char text[32];
    bool same; /* a large answer came back unchanged */
};

static bool pattern_holds(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)(i * 31 >> 3))
            return false;
    return true;
}

static void server_request(void *arg, uint64_t number, uint64_t peer, const void *bytes,
                           size_t size)
{
    struct server *s = arg;
    s->seen++;
    if (s->echo) {
        s->net->answer(s->listener, number, bytes, size);
        return;
    }
    if (s->open_count == OPEN_MAX)
        return;
    struct request *r = &s->open[s->open_count++];
    *r = (struct request){.number = number, .peer = peer, .size = size};
    memcpy(r->text, bytes, size < sizeof(r->text) - 1 ? size : sizeof(r->text) - 1);
    if (s->open_count > s->open_most)
        s->open_most = s->open_count;
}

static void server_gone(void *arg, uint64_t peer)
{
    struct server *s = arg;
    if (s->gone_count < OPEN_MAX)
        s->gone[s->gone_count++] = peer;
}

static void server_answer(struct server *s, int index, const char *text)
{
    s->net->answer(s->listener, s->open[index].number, text, strlen(text));
    memmove(&s->open[index], &s->open[index + 1],
            (size_t)(s->open_count - index - 1) * sizeof(s->open[0]));
    s->open_count--;
}

static void caller_done(void *arg, int code, const void *bytes, size_t size)
{
    struct caller *c = arg;
    c->completions++;
    c->code = code;
    c->size = size;
    c->same = code == 0 && pattern_holds(bytes, size);
    memset(c->text, 0, sizeof(c->text));
    if (code == 0)
        memcpy(c->text, bytes, size < sizeof(c->text) - 1 ? size : sizeof(c->text) - 1);
}

struct stage {
    const struct net_world *world;
    struct net *server_net, *client_net;
    struct loop *server_loop, *client_loop;
    const char *place;
    struct server *server;
    struct net_dialer *dialer;
    char url[NET_URL_MAX];
};

static bool listen_at(struct stage *st, const char *url, int max_in_flight)
{
    struct error err = {0};
    st->server = calloc(1, sizeof(*st->server)); /* outlives its case: callbacks may come late */
    st->server->net = st->server_net;
    int rc = st->server_net->listen(st->server_net->self, url, max_in_flight, server_request,
                                    server_gone, st->server, &st->server->listener, &err);
    if (rc != 0) {
        printf("    listen at %s: %s\n", url, err.text);
        return false;
    }
    snprintf(st->url, sizeof(st->url), "%s", st->server_net->listener_url(st->server->listener));
    return true;
}

static bool dial_to(struct stage *st, const char *url)
{
    struct error err = {0};
    int rc = st->client_net->dial(st->client_net->self, url, &st->dialer, &err);
    if (rc != 0)
        printf("    dial %s: %s\n", url, err.text);
    return rc == 0;
}

static bool stage_set(struct stage *st, const struct net_world *world, int max_in_flight)
{
    *st = (struct stage){.world = world};
    if (world->program(world->self, &st->server_net, &st->server_loop) != 0 ||
        world->program(world->self, &st->client_net, &st->client_loop) != 0)
        return false;
    st->place = world->place(world->self);
    return listen_at(st, st->place, max_in_flight) && dial_to(st, st->url);
}

static bool call(struct stage *st, struct caller *c, const char *text, int64_t timeout_ms)
{
    struct error err = {0};
    *c = (struct caller){0};
    int rc = st->client_net->call(st->dialer, text, strlen(text), timeout_ms, caller_done, c, &err);
    if (rc != 0)
        printf("    call: %s\n", err.text);
    return rc == 0 && c->completions == 0; /* never inside the call that started it */
}

static bool all_complete(const struct caller *c, int count)
{
    for (int i = 0; i < count; i++)
        if (c[i].completions == 0)
            return false;
    return true;
}

static bool wait_calls(struct stage *st, const struct caller *c, int count)
{
    for (int ms = 0; ms < PATIENCE_MS && !all_complete(c, count); ms += STEP_MS)
        st->world->turn(st->world->self, STEP_MS);
    return all_complete(c, count);
}

static bool wait_count(struct stage *st, const int *counter, int least)
{
    for (int ms = 0; ms < PATIENCE_MS && *counter < least; ms += STEP_MS)
        st->world->turn(st->world->self, STEP_MS);
    return *counter >= least;
}

/* Calls that fail while a connection is made are repeated, as a caller would. */
static bool call_until_answered(struct stage *st, const char *text)
{
    struct caller c;
    for (int tries = 0; tries < 20; tries++) {
        if (!call(st, &c, text, CALL_MS) || !wait_calls(st, &c, 1))
            return false;
        if (c.code == 0)
            return strcmp(c.text, text) == 0;
        if (c.code != E_UNAVAILABLE)
            return false;
    }
    return false;
}

static bool stage_open(struct stage *st, const struct net_world *world, int max_in_flight)
{
    if (!stage_set(st, world, max_in_flight))
        return false;
    st->server->echo = true;
    bool ok = call_until_answered(st, "hello");
    st->server->echo = false;
    st->server->seen = 0;
    return ok;
}

static void stage_strike(struct stage *st)
{
    if (st->dialer)
        st->client_net->close_dialer(st->dialer);
    if (st->server)
        st->server_net->close_listener(st->server->listener);
    st->world->turn(st->world->self, 20);
}

/* ---- the cases ---- */

static bool answers_of_all_sizes(struct stage *st)
{
    static const size_t sizes[] = {0, 1, 7, 4096, 100000, NET_MESSAGE_MAX_BYTES};
    expect(stage_open(st, st->world, 8));
    st->server->echo = true;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *bytes = malloc(sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[k] = (unsigned char)(k * 31 >> 3);
        struct caller c = {0};
        int rc = st->client_net->call(st->dialer, bytes, sizes[i], CALL_MS, caller_done, &c, NULL);
        free(bytes); /* copied by the call */
        expect(rc == 0 && wait_calls(st, &c, 1));
        expect(c.code == 0 && c.size == sizes[i] && c.same && c.completions == 1);
    }
    return true;
}

static bool too_large_is_refused_here(struct stage *st)
{
    expect(stage_open(st, st->world, 8));
    char *bytes = calloc(1, NET_MESSAGE_MAX_BYTES + 1);
    struct caller c = {0};
    int rc = st->client_net->call(st->dialer, bytes, NET_MESSAGE_MAX_BYTES + 1, CALL_MS,
                                  caller_done, &c, NULL);
    free(bytes);
    expect(rc == E_OUT_OF_RANGE);
    st->world->turn(st->world->self, 50);
    expect(c.completions == 0);
    return true;
}

static bool answered_in_any_order(struct stage *st)
{
    enum { CALLS = 200 };
    static struct caller c[CALLS];
    expect(stage_open(st, st->world, OPEN_MAX));
    for (int i = 0; i < CALLS; i++) {
        char text[32];
        snprintf(text, sizeof(text), "call %d", i);
        expect(call(st, &c[i], text, CALL_MS));
    }
    expect(wait_count(st, &st->server->open_count, CALLS));
    while (st->server->open_count > 0) {
        char text[64];
        int last = st->server->open_count - 1;
        snprintf(text, sizeof(text), "re: %s", st->server->open[last].text);
        server_answer(st->server, last, text);
    }
    expect(wait_calls(st, c, CALLS));
    for (int i = 0; i < CALLS; i++) {
        char text[32];
        snprintf(text, sizeof(text), "re: call %d", i);
        expect(c[i].code == 0 && c[i].completions == 1 && strcmp(c[i].text, text) == 0);
    }
    return true;
}

static bool long_polls_do_not_starve(struct stage *st)
{
    enum { POLLS = 100, SHORT = 100 };
    static struct caller polls[POLLS], c;
    expect(stage_open(st, st->world, 2 * POLLS));
    for (int i = 0; i < POLLS; i++)
        expect(call(st, &polls[i], "poll", 2 * CALL_MS));
    expect(wait_count(st, &st->server->open_count, POLLS));
    st->server->echo = true;
    for (int i = 0; i < SHORT; i++) {
        expect(call(st, &c, "short", CALL_MS));
        expect(wait_calls(st, &c, 1));
        expect(c.code == 0 && strcmp(c.text, "short") == 0);
    }
    expect(!polls[0].completions && !polls[POLLS - 1].completions);
    while (st->server->open_count > 0)
        server_answer(st->server, 0, "news");
    expect(wait_calls(st, polls, POLLS));
    expect(polls[0].code == 0 && strcmp(polls[POLLS - 1].text, "news") == 0);
    return true;
}

static bool deadline_ends_a_call_once(struct stage *st)
{
    struct caller c;
    expect(stage_open(st, st->world, 8));
    /* A call whose deadline came before it was sent says nothing of late answers. */
    for (int64_t ms = 100; st->server->open_count == 0; ms *= 2) {
        expect(call(st, &c, "never mind", ms));
        expect(wait_calls(st, &c, 1));
        expect(c.code == E_DEADLINE_EXCEEDED && c.completions == 1);
        st->world->turn(st->world->self, 50);
    }
    server_answer(st->server, 0, "too late");
    st->world->turn(st->world->self, 100);
    expect(c.completions == 1);
    st->server->echo = true;
    expect(call_until_answered(st, "next"));
    return true;
}

static bool foreign_numbers_are_ignored(struct stage *st)
{
    struct caller c;
    expect(stage_open(st, st->world, 8));
    st->server_net->answer(st->server->listener, 123456789, "x", 1);
    expect(call(st, &c, "once", CALL_MS));
    expect(wait_count(st, &st->server->open_count, 1));
    uint64_t number = st->server->open[0].number;
    server_answer(st->server, 0, "first");
    st->server_net->answer(st->server->listener, number, "second", 6);
    expect(wait_calls(st, &c, 1));
    st->world->turn(st->world->self, 50);
    expect(c.completions == 1 && strcmp(c.text, "first") == 0);
    return true;
}

static bool full_server_holds_back(struct stage *st)
{
    enum { CALLS = 40, ROOM = 4 };
    static struct caller c[CALLS];
    expect(stage_open(st, st->world, ROOM));
    for (int i = 0; i < CALLS; i++)
        expect(call(st, &c[i], "one of many", CALL_MS));
    for (int ms = 0; ms < PATIENCE_MS && !all_complete(c, CALLS); ms += STEP_MS) {
        st->world->turn(st->world->self, STEP_MS);
        if (st->server->open_count > 0)
            server_answer(st->server, 0, "done");
    }
    expect(all_complete(c, CALLS));
    expect(st->server->open_most <= ROOM);
    for (int i = 0; i < CALLS; i++)
        expect(c[i].code == 0 && c[i].completions == 1);
    return true;
}

static bool nobody_there_is_told_soon(struct stage *st)
{
    struct caller c;
    expect(stage_set(st, st->world, 8));
    st->server_net->close_listener(st->server->listener);
    st->world->turn(st->world->self, 50);
    expect(call(st, &c, "anybody?", CALL_MS));
    expect(wait_calls(st, &c, 1));
    expect(c.code == E_UNAVAILABLE); /* not E_DEADLINE_EXCEEDED */
    return true;
}

static bool server_may_come_later_and_again(struct stage *st)
{
    struct caller c[3];
    expect(stage_open(st, st->world, 8));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            expect(call(st, &c[i], "in flight", CALL_MS));
        expect(wait_count(st, &st->server->open_count, 3));
        st->server_net->close_listener(st->server->listener);
        expect(wait_calls(st, c, 3));
        for (int i = 0; i < 3; i++)
            expect(c[i].code == E_UNAVAILABLE && c[i].completions == 1);
        expect(listen_at(st, st->url, 8));
        st->server->echo = true;
        expect(call_until_answered(st, "are you back?"));
        st->server->echo = false;
        expect(st->server->seen == 1); /* nothing of the old calls was sent again */
    }
    return true;
}

static bool gone_clients_are_told(struct stage *st)
{
    struct caller c;
    expect(stage_open(st, st->world, 8));
    expect(call(st, &c, "first", CALL_MS));
    expect(wait_count(st, &st->server->open_count, 1));
    struct net_dialer *first = st->dialer;
    expect(dial_to(st, st->url));
    struct caller d = {0};
    for (int tries = 0; tries < 20 && st->server->open_count < 2; tries++) {
        expect(call(st, &d, "second", CALL_MS));
        for (int ms = 0; ms < PATIENCE_MS && !d.completions && st->server->open_count < 2;
             ms += STEP_MS)
            st->world->turn(st->world->self, STEP_MS);
    }
    expect(st->server->open_count >= 2);
    uint64_t peer = st->server->open[0].peer, other = st->server->open[1].peer;
    expect(peer != other && st->server->gone_count == 0);
    st->client_net->close_dialer(first);
    expect(c.completions == 1 && c.code == E_CANCELLED);
    expect(wait_count(st, &st->server->gone_count, 1));
    expect(st->server->gone_count == 1 && st->server->gone[0] == peer);
    server_answer(st->server, 0, "nobody hears this");
    server_answer(st->server, 0, "but this");
    expect(wait_calls(st, &d, 1) && strcmp(d.text, "but this") == 0);
    return true;
}

static bool closed_dialer_refuses(struct stage *st)
{
    struct caller c[2];
    expect(stage_open(st, st->world, 8));
    expect(call(st, &c[0], "a", CALL_MS) && call(st, &c[1], "b", CALL_MS));
    st->client_net->close_dialer(st->dialer);
    expect(c[0].code == E_CANCELLED && c[0].completions == 1);
    expect(c[1].code == E_CANCELLED && c[1].completions == 1);
    struct caller late = {0};
    expect(st->client_net->call(st->dialer, "c", 1, CALL_MS, caller_done, &late, NULL) ==
           E_CANCELLED);
    st->world->turn(st->world->self, 100);
    expect(late.completions == 0 && c[0].completions == 1 && c[1].completions == 1);
    return true;
}

static bool bad_addresses_are_refused(struct stage *st)
{
    expect(stage_set(st, st->world, 8));
    struct net_dialer *dialer;
    struct net_listener *listener;
    struct error err = {0};
    expect(st->client_net->dial(st->client_net->self, "carrier-pigeon://roof", &dialer, &err) ==
           E_INVALID_ARGUMENT);
    expect(err.text[0] != '\0');
    expect(st->server_net->listen(st->server_net->self, "carrier-pigeon://roof", 1, server_request,
                                  server_gone, NULL, &listener, &err) == E_INVALID_ARGUMENT);
    expect(st->server_net->listen(st->server_net->self, st->url, 1, server_request, server_gone,
                                  NULL, &listener, &err) != 0); /* taken */
    return true;
}

static const struct {
    const char *name;
    bool (*run)(struct stage *st);
} cases[] = {
    {"answers of all sizes arrive", answers_of_all_sizes},
    {"a message too large is refused by the call", too_large_is_refused_here},
    {"200 calls answered in reverse order", answered_in_any_order},
    {"100 long polls do not starve short calls", long_polls_do_not_starve},
    {"a deadline ends a call once", deadline_ends_a_call_once},
    {"unknown and repeated answers are ignored", foreign_numbers_are_ignored},
    {"a full server holds requests back", full_server_holds_back},
    {"nobody there is told soon", nobody_there_is_told_soon},
    {"a server may go and come back", server_may_come_later_and_again},
    {"gone clients are told, by connection", gone_clients_are_told},
    {"a closed dialer cancels and refuses", closed_dialer_refuses},
    {"bad addresses are refused", bad_addresses_are_refused},
};

int net_suite_run(const struct net_world *world)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct stage st = {.world = world};
        bool ok = cases[i].run(&st);
        stage_strike(&st);
        free(st.server);
        failed += !ok;
        printf("%s  %s: %s\n", ok ? "ok  " : "FAIL", world->name, cases[i].name);
        fflush(stdout);
    }
    return failed;
}
