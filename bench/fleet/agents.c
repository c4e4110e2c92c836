/* Real agents (agent/agent.h), many in one process, with a launcher that has nothing to start; how
 * long the coordinator takes to answer is asked of a probe. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "bench/fleet/fleet.h"
#include "common/rpc/client.h"
#include "proto/client.pb-c.h"

enum { PROBE_EVERY_MS = 20, PROBE_TIMEOUT_MS = 10000, HUB_MAX = 120 };

static int nothing_open(void *self, const struct launcher_events *events, struct error *err)
{
    (void)self, (void)events, (void)err;
    return 0;
}

static void nothing_close(void *self)
{
    (void)self;
}

static struct launcher nothing = {.open = nothing_open, .close = nothing_close};

static void left(void *arg, enum agent_end why)
{
    struct fleet *fleet = arg;
    (void)why;
    fleet->failed++;
}

int agents_init(struct fleet *fleet, struct error *err)
{
    char address[NET_ADDRESS_MAX];
    fleet->all_agents = calloc((size_t)fleet->count, sizeof(struct agent *));
    if (!fleet->all_agents)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for agents");
    int rc = fleet_address(fleet, -1, address, err);
    return rc ? rc
              : rpc_client_new(&fleet->env, fleet->loop, address, fleet->token, &fleet->probe, err);
}

int agents_start(struct fleet *fleet, int at, struct error *err)
{
    static const char *const environment[] = {NULL};
    char name[24], hub[HUB_MAX], address[NET_ADDRESS_MAX];
    snprintf(name, sizeof(name), "agent%d", at);
    snprintf(hub, sizeof(hub), "ipc://%s/%d.sock", fleet->folder, at);
    struct agent_options options = {.name = name,
                                    .coordinator = address,
                                    .token = fleet->token,
                                    .hub_url = hub,
                                    .address = "127.0.0.1",
                                    .version = "bench",
                                    .port_first = 20000,
                                    .port_last = 20100,
                                    .environment = environment,
                                    .on_end = left,
                                    .on_end_arg = fleet};
    options.inventory.slots = 8;
    options.inventory.cpus = 8;
    options.inventory.memory_bytes = UINT64_C(1) << 36;
    int rc = fleet_address(fleet, at, address, err);
    return rc ? rc
              : agent_new(&options, &fleet->env, fleet->loop, &nothing, &fleet->all_agents[at],
                          err);
}

int agents_registered(const struct fleet *fleet)
{
    int count = 0;
    for (int i = 0; i < fleet->started; i++)
        count += agent_registered(fleet->all_agents[i]);
    return count;
}

void agents_end(const struct fleet *fleet)
{
    for (int i = 0; i < fleet->started; i++) {
        char path[HUB_MAX];
        snprintf(path, sizeof(path), "%s/%d.sock", fleet->folder, i);
        (void)unlink(path);
    }
}

static void probe(void *arg)
{
    agents_probe(arg);
}

static void probed(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct fleet *fleet = arg;
    (void)answer;
    fleet_fail(fleet, "probe", err);
    fleet_sample(fleet, fleet->probe_s);
    loop_timer_set(fleet->loop, &fleet->probe_timer, loop_now_ms(fleet->loop) + PROBE_EVERY_MS,
                   probe, fleet);
}

void agents_probe(struct fleet *fleet)
{
    struct rpc_options options = {.timeout_ms = PROBE_TIMEOUT_MS};
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    fleet->probe_s = now_s();
    fleet->failed += rpc_client_call(fleet->probe, &muster__coordinator__descriptor, "Version",
                                     &request.base, &options, probed, fleet, NULL) < 0;
}
