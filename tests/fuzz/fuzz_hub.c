/* Calls of workers and of other processes of their machine at an agent's hub: whole frames or a
 * method with any payload, one after the other (tests/fuzz/door.h), in front of the agent's core
 * with a gang of two workers here. Whatever comes, each call has one answer, the core's invariants
 * hold, and a call without a worker's token reaches no worker.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/core/step.h"
#include "agent/link/worker_socket.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/rpc/client.h"
#include "tests/fuzz/door.h"
#include "tests/fuzz/fuzz.h"

enum { CALLS_MAX = 64, SETTLE_MS = 3000, WORKERS = 2, GENERATIONS = 3 };

static const char *const methods[] = {
    "WorkerHub.Hello",     "WorkerHub.Join",  "WorkerHub.Watch",
    "WorkerHub.Progress",  "WorkerHub.Board", "WorkerHub.CommitCheckpoint",
    "WorkerHub.LostPeers",
};
/* By uid and generation; the third generation's are not out yet. */
static const char *const tokens[] = {"", "unknown", "t1-1", "t2-1", "t1-2", "t2-2", "t1-3"};
enum { STRANGERS = 2 }; /* of the tokens */

struct hub {
    struct door door;
    struct agent_core *core;
    struct worker_socket *socket;
    struct rpc_client *upstream;
    struct loop_timer tick;
    uint64_t generation;
    struct pace pace;
    bool let_in; /* an event came of the call that is being made */
};

static void step(struct hub *hub, struct agent_event *event);

static void ticked(void *arg)
{
    struct agent_event event = {.kind = AGENT_EVENT_TICK};
    step(arg, &event);
}

static void perform(struct hub *hub, const struct agent_action *action)
{
    if (action->kind == AGENT_ACTION_ANSWER || action->kind == AGENT_ACTION_REFUSE)
        worker_socket_answer(hub->socket, action);
    else if (action->kind == AGENT_ACTION_WAKE_AT)
        loop_timer_set(hub->door.loop, &hub->tick, action->at_ms, ticked, hub);
}

static void step(struct hub *hub, struct agent_event *event)
{
    struct agent_actions actions = {0};
    event->now_ms = loop_now_ms(hub->door.loop);
    agent_step(hub->core, event, &actions);
    agent_core_check(hub->core);
    for (int i = 0; i < actions.count; i++)
        perform(hub, &actions.items[i]);
    agent_actions_fini(&actions);
}

static int identify(void *arg, const char *token, struct worker_key *ret, struct error *err)
{
    const struct hub *hub = arg;
    return agent_core_identify(hub->core, token, ret, err);
}

static int authorize(void *arg, const struct worker_key *key, const struct worker_claim *claim,
                     struct error *err)
{
    const struct hub *hub = arg;
    return agent_core_authorize(hub->core, key, claim->token, claim->old_ok, err);
}

static void on_event(void *arg, struct agent_event *event)
{
    struct hub *hub = arg;
    hub->let_in = true;
    step(hub, event);
}

static void on_metric(void *arg, const struct metric *metric)
{
    struct hub *hub = arg;
    hub->let_in = true;
    insist(metric->name[0]);
}

static void on_stepped(void *arg, const struct worker_key *key, const struct pace_mark *mark)
{
    struct hub *hub = arg;
    hub->let_in = true;
    (void)key;
    insist(mark->seconds > 0 && mark->waited_seconds >= 0);
    (void)pace_add(&hub->pace, mark);
}

static void on_number(void *arg, const struct worker_key *key, const char *name, double value)
{
    struct hub *hub = arg;
    hub->let_in = true;
    (void)key, (void)name, (void)value; /* figures.c ignores names that are none */
}

/* Both workers of the gang are wanted in this generation, and all have joined the one before. */
static void want(struct hub *hub, uint64_t generation)
{
    static const char *const command[] = {"true", NULL};
    struct assignment *all[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct assignment *a = all[i] = assignment_new();
        char token[16];
        insist(a);
        (void)str_copy(a->key.job, sizeof(a->key.job), "j1");
        a->key.uid = i + 1;
        a->generation = generation;
        a->rank = a->local_rank = a->slot = i;
        a->world = a->local_world = WORKERS;
        a->slots = 1;
        a->command = command;
        (void)str_printf(token, sizeof(token), "t%u-%llu", i + 1, (unsigned long long)generation);
        a->token = arena_strdup(&a->arena, token);
        insist(a->token);
    }
    struct agent_event event = {.kind = AGENT_EVENT_DESIRED,
                                .desired = {.assignments = all, .count = WORKERS}};
    hub->generation = generation;
    step(hub, &event);
    for (int i = 0; i < WORKERS; i++)
        assignment_release(all[i]);
}

static void hub_init(struct hub *hub)
{
    struct error err = {0};
    memset(hub, 0, sizeof(*hub));
    door_init(&hub->door);
    hub->core = agent_core_new();
    insist(hub->core);
    insist(rpc_client_new(&hub->door.env, hub->door.loop, "tcp://127.0.0.1:1", "agent",
                          &hub->upstream, &err) == 0);
    struct socket_options options = {.url = "tcp://127.0.0.1:1",
                                     .node = "n1",
                                     .incarnation = 1,
                                     .upstream = hub->upstream,
                                     .events = {.arg = hub,
                                                .identify = identify,
                                                .authorize = authorize,
                                                .event = on_event,
                                                .metric = on_metric,
                                                .stepped = on_stepped,
                                                .number = on_number}};
    insist(worker_socket_new(&options, &hub->door.env, hub->door.loop, &hub->socket, &err) == 0);
    struct agent_event registered = {.kind = AGENT_EVENT_REGISTERED};
    step(hub, &registered);
    want(hub, 1);
    for (uint64_t uid = 1; uid <= WORKERS; uid++) {
        struct agent_event started = {
            .kind = AGENT_EVENT_STARTED, .key = {.job = "j1", .uid = uid}, .started = {.pid = 9}};
        step(hub, &started);
    }
}

static void hub_fini(struct hub *hub)
{
    door_run(&hub->door, SETTLE_MS);
    for (int i = 0; i < hub->door.count; i++)
        insist(hub->door.requests[i].answered);
    worker_socket_free(hub->socket);
    rpc_client_free(hub->upstream);
    loop_timer_cancel(hub->door.loop, &hub->tick);
    agent_core_free(hub->core);
    door_fini(&hub->door);
}

static void make(struct hub *hub, const struct door_call *call)
{
    size_t who = call->who % (sizeof(tokens) / sizeof(tokens[0]));
    size_t method = call->method % (sizeof(methods) / sizeof(methods[0]));
    hub->let_in = false;
    const struct door_request *request = door_make(&hub->door, call, tokens[who], methods[method]);
    if (!request || who >= STRANGERS)
        return;
    insist(request->answered && request->code == E_UNAUTHENTICATED);
    insist(!hub->let_in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hub hub;
    struct door_call call;
    hub_init(&hub);
    for (int calls = 0; calls < CALLS_MAX && door_next(&data, &size, &call); calls++) {
        make(&hub, &call);
        if (call.method >= 0xf0 && hub.generation < GENERATIONS - 1)
            want(&hub, hub.generation + 1);
    }
    hub_fini(&hub);
    return 0;
}
