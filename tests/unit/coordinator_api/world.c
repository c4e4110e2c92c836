#include "tests/unit/coordinator_api/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/env/disk_os.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/store/store_memory.h"

static int64_t now_ms(void *self)
{
    struct world *world = self;
    if (world->lags > 0) {
        world->lags--;
        world->now_ms += world->lag_ms;
    }
    return world->now_ms;
}

static int64_t wall_ms(void *self)
{
    const struct world *world = self;
    return 1700000000000 + world->now_ms + world->wall_ahead_ms;
}

static void fill(void *self, void *bytes, size_t count)
{
    struct world *world = self;
    for (size_t i = 0; i < count; i++) {
        world->random = world->random * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)bytes)[i] = (uint8_t)(world->random >> 56);
    }
}

/* Nobody connects: calls come through the service. */
static int listen_nowhere(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                          net_gone_fn on_gone, void *arg, struct net_listener **ret,
                          struct error *err)
{
    (void)url, (void)max_in_flight, (void)on_request, (void)on_gone, (void)arg, (void)err;
    *ret = self;
    return 0;
}

static const char *url_of(struct net_listener *listener)
{
    (void)listener;
    return "nowhere://";
}

static void close_nowhere(struct net_listener *listener)
{
    (void)listener;
}

static void read_token(struct world *world, const char *role, char ret[TOKEN_MAX])
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s.token", world->dir, role);
    FILE *file = fopen(path, "re");
    cr_assert(file && fgets(ret, TOKEN_MAX, file));
    ret[strcspn(ret, "\n")] = 0;
    fclose(file);
}

static void start(struct world *world)
{
    struct error err = {0};
    struct coordinator_options options = {.data_dir = world->dir,
                                          .rpc_url = "nowhere://",
                                          .version = "test",
                                          .keep_jobs = world->keep_jobs,
                                          .keep_ms = world->keep_ms,
                                          .keep_nodes = world->keep_nodes,
                                          .keep_nodes_ms = world->keep_nodes_ms,
                                          .terminal_idle_ms = world->terminal_idle_ms,
                                          .pin = world->pin};
    cr_assert_eq(coordinator_new(&options, &world->env, world->loop, world->store,
                                 &world->coordinator, &err),
                 0, "%s", err.text);
}

void world_init(struct world *world)
{
    memset(world, 0, sizeof(*world));
    snprintf(world->dir, sizeof(world->dir), "/tmp/muster-api-XXXXXX");
    insist(mkdtemp(world->dir));
    world->now_ms = 1000;
    world->clock = (struct clock){.self = world, .now_ms = now_ms, .wall_ms = wall_ms};
    world->env.clock = world->clock;
    world->env.rng = (struct rng_source){.self = world, .fill = fill};
    world->env.disk = disk_os();
    world->env.net = (struct net){.self = world,
                                  .listen = listen_nowhere,
                                  .listener_url = url_of,
                                  .close_listener = close_nowhere};
    insist(loop_new_simulated(world->clock, &world->loop, NULL) == 0);
    insist(store_memory_new(&world->store, NULL) == 0);
    start(world);
    read_token(world, "admin", world->admin);
    read_token(world, "agent", world->agent);
}

void world_restart(struct world *world)
{
    coordinator_free(world->coordinator);
    start(world);
}

void world_fini(struct world *world)
{
    coordinator_free(world->coordinator);
    store_close(world->store);
    loop_free(world->loop);
    insist(world->env.disk.remove_tree(world->env.disk.self, world->dir, NULL) == 0);
}

void world_run(struct world *world, int64_t ms)
{
    for (int64_t end = world->now_ms + ms; world->now_ms < end; world->now_ms++)
        loop_turn(world->loop);
}

static void answered(void *arg, uint64_t tag, const struct error *err,
                     const ProtobufCMessage *message)
{
    struct answer *answer = arg;
    (void)tag;
    cr_assert_not(answer->done, "answered twice");
    answer->done = true;
    if (err)
        answer->err = *err;
    else
        answer->message = rpc_message_copy(message);
}

struct posted {
    struct world *world;
    struct service_request request;
};

static void start_on_loop(void *arg)
{
    struct posted *posted = arg;
    service_start(coordinator_service(posted->world->coordinator), &posted->request);
    free(posted);
}

void call_start(struct world *world, const struct call *call, struct answer *ret)
{
    struct posted *posted = calloc(1, sizeof(*posted));
    memset(ret, 0, sizeof(*ret));
    posted->world = world;
    posted->request = (struct service_request){
        .method = protobuf_c_service_descriptor_get_method_by_name(call->service, call->method),
        .service = call->service->short_name,
        .message = call->message,
        .token = call->token,
        .idempotency_key = call->key ? call->key : "",
        .deadline_ms = world->now_ms + (call->timeout_ms ? call->timeout_ms : 10000),
        .peer = call->peer,
        .peer_key = call->peer_key,
        .answer = answered,
        .arg = ret,
    };
    cr_assert(posted->request.method, "%s", call->method);
    loop_post(world->loop, start_on_loop, posted);
}

void call_now(struct world *world, const struct call *call, struct answer *ret)
{
    call_start(world, call, ret);
    for (int64_t waited = 0; !ret->done && waited < 60000; waited++)
        world_run(world, 1);
    cr_assert(ret->done, "%s was never answered", call->method);
}

const void *client(struct world *world, const char *method, const void *message, struct answer *ret)
{
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = method,
                        .message = message,
                        .token = world->admin};
    call_now(world, &call, ret);
    cr_assert(ret->message, "%s: %s", method, ret->err.text);
    return ret->message;
}

const void *agent(struct world *world, const char *method, const void *message, struct answer *ret)
{
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = method,
                        .message = message,
                        .token = world->agent,
                        .peer = 1};
    call_now(world, &call, ret);
    cr_assert(ret->message, "%s: %s", method, ret->err.text);
    return ret->message;
}

void answer_fini(struct answer *answer)
{
    rpc_message_free(answer->message);
    memset(answer, 0, sizeof(*answer));
}

struct world world;

void world_open(void)
{
    world_init(&world);
}

void world_close(void)
{
    world_fini(&world);
}

static char *true_words[] = {(char *)"true"};

Muster__JobSpec spec_of(const char *name)
{
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    spec.name = (char *)(uintptr_t)name;
    spec.command = true_words;
    spec.n_command = 1;
    return spec;
}

void expect_refused(const struct call *call, int code)
{
    struct answer answer;
    call_now(&world, call, &answer);
    cr_assert_eq(answer.err.code, code, "%s: got %s: %s", call->method, error_name(answer.err.code),
                 answer.err.text);
}

void submit_true(const char *name, const char *token, const char *key, struct answer *ret)
{
    Muster__JobSpec spec = spec_of(name);
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    message.spec = &spec;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SubmitJob",
                        .message = &message.base,
                        .token = token,
                        .key = key};
    call_now(&world, &call, ret);
}

void register_node_of(uint64_t incarnation, uint32_t slots)
{
    struct answer answer;
    Muster__RegisterNodeRequest message = MUSTER__REGISTER_NODE_REQUEST__INIT;
    message.name = "n1";
    message.incarnation = incarnation;
    message.address = "127.0.0.1";
    message.slots = slots;
    message.cpus = slots;
    message.memory_bytes = 1 << 30;
    message.port_first = 30000;
    message.port_last = 30008 + slots;
    message.version = "test";
    const Muster__RegisterNodeAnswer *got = agent(&world, "RegisterNode", &message, &answer);
    cr_assert_gt(got->lease_ms, got->beat_ms);
    cr_assert_str_eq(got->cluster, coordinator_cluster_id(world.coordinator));
    answer_fini(&answer);
}

Muster__NodePollRequest poll_message(uint64_t version)
{
    Muster__NodePollRequest message = MUSTER__NODE_POLL_REQUEST__INIT;
    message.node = "n1";
    message.incarnation = 7;
    message.version = version;
    return message;
}
