/* struct net of the simulated world: messages take time, get lost, come twice or late; machines can
 * be cut from each other. Within a machine only time passes. A connection is (dialer, listener):
 * its end is told to the listener, as a socket's would be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "tests/sim/world.h"

enum {
    REORDER_MAX_MS = 2000, /* what overtakes it may be this much younger */
    REPEAT_MAX_MS = 3000,  /* a repeated request may come this much later */
    LOCAL_DELAY_MS = 1,
    REFUSED_MS = 2,
    GONE_MAX_MS = 50,
    RESET_MAX_MS = 1500, /* a call over a dead connection hears of it within this, or never */
};

struct net_listener {
    struct program *program;
    char url[NET_URL_MAX];
    bool closed;
    net_request_fn on_request;
    net_gone_fn on_gone;
    void *arg;
    uint64_t next_request;
    struct map requests; /* number -> struct sim_call it answers (a reference) */
    struct net_listener *next;
};

struct net_dialer {
    struct program *program;
    char url[NET_URL_MAX];
    bool closed;
    uint64_t peer;                 /* of its connection, 0 = none */
    struct net_listener *listener; /* it is connected to */
    struct map calls;              /* open ones, by number */
    uint64_t next_call;
    struct net_dialer *next;
};

struct sim_call {
    int references; /* queued happenings, requests of listeners, the dialer's table */
    struct net_dialer *dialer;
    uint64_t number;
    bool done;
    net_answer_fn on_answer;
    void *arg;
    size_t size;
    char bytes[];
};

/* Not inlined: gcc 12 takes the second of two releases for a use after free. */
__attribute__((noinline)) static void release(struct sim_call *call)
{
    if (--call->references == 0)
        free(call);
}

static void complete(struct sim_call *call, int code, const void *bytes, size_t size)
{
    if (call->done)
        return;
    call->done = true;
    map_remove(&call->dialer->calls, call->number);
    call->on_answer(call->arg, code, bytes, size);
    release(call);
}

struct completion { /* on its way to the dialer's program */
    struct sim_call *call;
    int code;
    size_t size;
    char bytes[];
};

static void completion_arrives(void *arg)
{
    struct completion *completion = arg;
    struct sim_call *call = completion->call;
    complete(call, completion->code, completion->bytes, completion->size);
    release(call);
    free(completion);
}

static void completion_due(struct world *world, void *arg)
{
    struct completion *completion = arg;
    struct program *program = completion->call->dialer->program;
    (void)world;
    if (program->alive && !completion->call->done) {
        program_post(program, completion_arrives, completion);
        return;
    }
    release(completion->call);
    free(completion);
}

static void complete_at(struct world *world, struct sim_call *call, int64_t at_ms, int code,
                        const void *bytes, size_t size)
{
    struct completion *completion = malloc(sizeof(*completion) + size);
    insist(completion);
    completion->call = call;
    completion->code = code;
    completion->size = size;
    if (size)
        memcpy(completion->bytes, bytes, size);
    call->references++;
    world_at(world, at_ms, completion_due, completion);
}

static bool is_cut(const struct world *world, const struct program *a, const struct program *b)
{
    return world->cut[a->machine][b->machine];
}

static int64_t delay(struct world *world, const struct program *a, const struct program *b)
{
    if (a->machine == b->machine)
        return rng_between(&world->net_rng, 0, LOCAL_DELAY_MS);
    if (rng_chance(&world->net_rng, world->reorder))
        return rng_between(&world->net_rng, 0, REORDER_MAX_MS);
    return rng_between(&world->net_rng, 0, world->delay_max_ms);
}

/* Lost on the way: the transport notices after a while, or the deadline does. */
static void lose(struct world *world, struct sim_call *call)
{
    if (rng_chance(&world->net_rng, 0.5))
        complete_at(world, call, world->now_ms + rng_between(&world->net_rng, 1, RESET_MAX_MS),
                    E_UNAVAILABLE, NULL, 0);
}

static struct net_listener *find_listener(struct world *world, const char *url)
{
    for (struct net_listener *l = world->listeners; l; l = l->next)
        if (!l->closed && l->program->alive && strcmp(l->url, url) == 0)
            return l;
    return NULL;
}

struct arrival {
    struct sim_call *call;
    struct net_listener *listener;
    uint64_t request, peer;
};

static void request_arrives(void *arg)
{
    struct arrival *arrival = arg;
    struct net_listener *listener = arrival->listener;
    if (!listener->closed)
        listener->on_request(listener->arg, arrival->request, arrival->peer, arrival->call->bytes,
                             arrival->call->size);
    free(arrival);
}

static void request_due(struct world *world, void *arg)
{
    struct sim_call *call = arg;
    struct net_dialer *dialer = call->dialer;
    struct net_listener *listener = find_listener(world, dialer->url);
    if (!listener) {
        complete_at(world, call, world->now_ms + REFUSED_MS, E_UNAVAILABLE, NULL, 0);
    } else if (!dialer->program->alive || dialer->closed) {
        /* what was still in its socket when it died */
    } else {
        if (dialer->listener != listener) {
            dialer->listener = listener;
            dialer->peer = world->next_peer++;
        }
        struct arrival *arrival = calloc(1, sizeof(*arrival));
        insist(arrival);
        *arrival = (struct arrival){.call = call,
                                    .listener = listener,
                                    .peer = dialer->peer,
                                    .request = ++listener->next_request};
        call->references++; /* held by the request until it is answered */
        insist(map_set(&listener->requests, arrival->request, call, NULL) == 0);
        program_post(listener->program, request_arrives, arrival);
    }
    release(call);
}

static void deadline_due(struct world *world, void *arg)
{
    struct sim_call *call = arg;
    if (!call->done && call->dialer->program->alive)
        complete_at(world, call, world->now_ms, E_DEADLINE_EXCEEDED, NULL, 0);
    release(call);
}

static struct program *target_of(struct world *world, const struct net_dialer *dialer)
{
    struct net_listener *listener = find_listener(world, dialer->url);
    return listener ? listener->program : NULL;
}

static int net_call(struct net_dialer *dialer, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err)
{
    struct world *world = dialer->program->world;
    struct program *target = target_of(world, dialer);
    if (dialer->closed)
        return error_set(err, E_CANCELLED, "the connection is closed");
    struct sim_call *call = malloc(sizeof(*call) + size);
    insist(call);
    *call = (struct sim_call){.references = 2,
                              .dialer = dialer,
                              .number = ++dialer->next_call,
                              .on_answer = on_answer,
                              .arg = arg,
                              .size = size};
    memcpy(call->bytes, bytes, size);
    insist(map_set(&dialer->calls, call->number, call, NULL) == 0);
    world_at(world, world->now_ms + timeout_ms, deadline_due, call);
    bool near = target && target->machine == dialer->program->machine;
    if (!target) {
        complete_at(world, call, world->now_ms + REFUSED_MS, E_UNAVAILABLE, NULL, 0);
        return 0;
    }
    if (!near &&
        (is_cut(world, dialer->program, target) || rng_chance(&world->net_rng, world->loss))) {
        lose(world, call);
        return 0;
    }
    int64_t at_ms = world->now_ms + delay(world, dialer->program, target);
    call->references++;
    world_at(world, at_ms, request_due, call);
    if (!near && rng_chance(&world->net_rng, world->duplicate)) {
        call->references++;
        world_at(world, at_ms + rng_between(&world->net_rng, 0, REPEAT_MAX_MS), request_due, call);
    }
    return 0;
}

static void net_answer(struct net_listener *listener, uint64_t request, const void *bytes,
                       size_t size)
{
    struct world *world = listener->program->world;
    struct sim_call *call = map_remove(&listener->requests, request);
    if (!call)
        return;
    const struct program *to = call->dialer->program;
    bool near = to->machine == listener->program->machine;
    if (!call->done && to->alive) {
        if (!near &&
            (is_cut(world, listener->program, to) || rng_chance(&world->net_rng, world->loss)))
            lose(world, call);
        else
            complete_at(world, call, world->now_ms + delay(world, listener->program, to), 0, bytes,
                        size);
    }
    release(call);
}

static int net_listen(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                      net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err)
{
    struct program *program = self;
    (void)max_in_flight;
    if (find_listener(program->world, url))
        return error_set(err, E_ALREADY_EXISTS, "%s is in use", url);
    struct net_listener *listener = calloc(1, sizeof(*listener));
    insist(listener);
    listener->program = program;
    (void)str_copy(listener->url, sizeof(listener->url), url);
    listener->on_request = on_request;
    listener->on_gone = on_gone;
    listener->arg = arg;
    listener->next = program->world->listeners;
    program->world->listeners = listener;
    *ret = listener;
    return 0;
}

static const char *net_listener_url(struct net_listener *listener)
{
    return listener->url;
}

static void net_close_listener(struct net_listener *listener)
{
    listener->closed = true;
}

static int net_dial(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    struct program *program = self;
    struct net_dialer *dialer = calloc(1, sizeof(*dialer));
    (void)err;
    insist(dialer);
    dialer->program = program;
    (void)str_copy(dialer->url, sizeof(dialer->url), url);
    dialer->next = program->world->dialers;
    program->world->dialers = dialer;
    *ret = dialer;
    return 0;
}

struct gone {
    struct net_listener *listener;
    uint64_t peer;
};

static void gone_arrives(void *arg)
{
    struct gone *gone = arg;
    if (!gone->listener->closed && gone->listener->on_gone)
        gone->listener->on_gone(gone->listener->arg, gone->peer);
    free(gone);
}

static void gone_due(struct world *world, void *arg)
{
    struct gone *gone = arg;
    (void)world;
    if (gone->listener->program->alive)
        program_post(gone->listener->program, gone_arrives, gone);
    else
        free(gone);
}

static void tell_gone(struct net_dialer *dialer)
{
    struct world *world = dialer->program->world;
    if (!dialer->peer || is_cut(world, dialer->program, dialer->listener->program))
        return;
    struct gone *gone = calloc(1, sizeof(*gone));
    insist(gone);
    *gone = (struct gone){.listener = dialer->listener, .peer = dialer->peer};
    dialer->peer = 0;
    dialer->listener = NULL;
    world_at(world, world->now_ms + rng_between(&world->net_rng, 1, GONE_MAX_MS), gone_due, gone);
}

static void net_close_dialer(struct net_dialer *dialer)
{
    if (dialer->closed)
        return;
    dialer->closed = true;
    for (struct map_entry *e; (e = map_first(&dialer->calls));)
        complete(e->value, E_CANCELLED, NULL, 0);
    tell_gone(dialer);
}

struct net sim_net(struct program *program)
{
    return (struct net){.self = program,
                        .listen = net_listen,
                        .listener_url = net_listener_url,
                        .answer = net_answer,
                        .close_listener = net_close_listener,
                        .dial = net_dial,
                        .call = net_call,
                        .close_dialer = net_close_dialer};
}

static void drop_requests(struct net_listener *listener, bool tell)
{
    struct world *world = listener->program->world;
    for (struct map_entry *e; (e = map_first(&listener->requests));) {
        struct sim_call *call = e->value;
        map_remove(&listener->requests, e->key);
        if (tell && !call->done && call->dialer->program->alive &&
            !is_cut(world, listener->program, call->dialer->program))
            complete_at(world, call, world->now_ms + rng_between(&world->net_rng, 1, GONE_MAX_MS),
                        E_UNAVAILABLE, NULL, 0);
        release(call);
    }
}

/* Free what a dead program's dialers still hold; their callbacks lead nowhere. */
static void drop_calls(struct net_dialer *dialer)
{
    for (struct map_entry *e; (e = map_first(&dialer->calls));) {
        struct sim_call *call = e->value;
        map_remove(&dialer->calls, e->key);
        call->done = true;
        release(call);
    }
}

void sim_net_program_ended(struct program *program, bool sudden)
{
    for (struct net_listener *l = program->world->listeners; l; l = l->next)
        if (l->program == program) {
            l->closed = true;
            drop_requests(l, !sudden);
        }
    for (struct net_dialer *d = program->world->dialers; d; d = d->next)
        if (d->program == program) {
            d->closed = true;
            drop_calls(d);
            if (!sudden)
                tell_gone(d);
        }
}

/* Happenings still queued at the end hold references nobody will release: a world lives in its own
 * process (main.c), which ends with it. */
void sim_net_fini(struct world *world)
{
    for (struct net_listener *l = world->listeners, *next; l; l = next) {
        next = l->next;
        map_fini(&l->requests);
        free(l);
    }
    for (struct net_dialer *d = world->dialers, *next; d; d = next) {
        next = d->next;
        map_fini(&d->calls);
        free(d);
    }
}
