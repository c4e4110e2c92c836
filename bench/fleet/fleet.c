/* Many nodes in one process: fleet URL TOKEN agents|beats COUNT SECONDS.
 *
 * agents: COUNT real agents (agent/agent.h), each with a connection, a hub and a loop's timers of
 * its own, with a launcher that has nothing to start. beats: COUNT nodes that register, beat once a
 * second and keep a long poll open, as agents do, over CONNECTIONS connections.
 *
 * When all are registered it prints "ready SECONDS", then measures for SECONDS and prints one JSON
 * line: reports a second and how long they take to be answered (of agents: of a probe's calls).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/client.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"

enum {
    COUNT_MAX = 20000,
    CONNECTIONS = 64,
    BEAT_EVERY_MS = 1000,
    POLL_TIMEOUT_MS = 30000,
    CALL_TIMEOUT_MS = 10000,
    PROBE_EVERY_MS = 20,
    SAMPLES_MAX = 1 << 20,
    LOOK_EVERY_MS = 20,
};

struct fleet;

struct beater { /* a node that only speaks */
    struct fleet *fleet;
    struct rpc_client *client;
    char name[16];
    uint64_t incarnation, sequence;
    bool registered;
    double asked_s;
    struct loop_timer timer;
};

struct fleet {
    struct env env;
    struct loop *loop;
    int count, registered, failed;
    double seconds, start_s, ready_s;
    bool agents;
    struct agent **all_agents;
    struct beater *beaters;
    struct rpc_client *clients[CONNECTIONS];
    struct rpc_client *probe;
    double probe_s;
    float *samples_ms;
    int samples;
    struct loop_timer look, probe_timer, end;
    char hubs[64];
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sample(struct fleet *fleet, double since_s)
{
    if (fleet->ready_s > 0 && fleet->samples < SAMPLES_MAX)
        fleet->samples_ms[fleet->samples++] = (float)((now_s() - since_s) * 1000);
}

/* Counted, and the first one shown. */
static void fail(struct fleet *fleet, const char *what, const struct error *err)
{
    if (err->code && fleet->failed++ == 0)
        fprintf(stderr, "fleet: %s: %s\n", what, err->text);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct fleet *fleet, double part)
{
    return fleet->samples ? fleet->samples_ms[(int)(part * (fleet->samples - 1))] : 0;
}

static void end(void *arg)
{
    struct fleet *fleet = arg;
    qsort(fleet->samples_ms, (size_t)fleet->samples, sizeof *fleet->samples_ms, by_value);
    printf("{\"nodes\": %d, \"failed\": %d, \"calls_per_s\": %.1f, \"p50_ms\": %.2f, "
           "\"p99_ms\": %.2f, \"max_ms\": %.2f}\n",
           fleet->registered, fleet->failed, fleet->samples / (now_s() - fleet->ready_s),
           quantile(fleet, 0.5), quantile(fleet, 0.99), quantile(fleet, 1));
    fflush(NULL);
    for (int i = 0; fleet->agents && i < fleet->count; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%d.sock", fleet->hubs, i);
        (void)unlink(path);
    }
    (void)rmdir(fleet->hubs);
    _Exit(fleet->failed ? 1 : 0); /* NNG 1.5.2 cannot be taken down while it is in use */
}

/* Beats */

static void beat(void *arg);

static void beaten(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    (void)answer;
    fail(beater->fleet, "report", err);
    sample(beater->fleet, beater->asked_s);
}

static void beat(void *arg)
{
    struct beater *beater = arg;
    struct rpc_options options = {.timeout_ms = CALL_TIMEOUT_MS};
    Muster__NodeReport report = MUSTER__NODE_REPORT__INIT;
    report.node = beater->name;
    report.incarnation = beater->incarnation;
    report.sequence = ++beater->sequence;
    beater->asked_s = now_s();
    beater->fleet->failed += rpc_client_call(beater->client, &muster__nodes__descriptor, "Report",
                                             &report.base, &options, beaten, beater, NULL) < 0;
    loop_timer_set(beater->fleet->loop, &beater->timer,
                   loop_now_ms(beater->fleet->loop) + BEAT_EVERY_MS, beat, beater);
}

static void poll(struct beater *beater, uint64_t version);

static void polled(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    const Muster__NodePollAnswer *got = (const Muster__NodePollAnswer *)answer;
    poll(beater, err->code ? 0 : got->version);
}

static void poll(struct beater *beater, uint64_t version)
{
    struct rpc_options options = {.timeout_ms = POLL_TIMEOUT_MS};
    Muster__NodePollRequest request = MUSTER__NODE_POLL_REQUEST__INIT;
    request.node = beater->name;
    request.incarnation = beater->incarnation;
    request.version = version;
    beater->fleet->failed += rpc_client_call(beater->client, &muster__nodes__descriptor, "Poll",
                                             &request.base, &options, polled, beater, NULL) < 0;
}

static void registered(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    (void)answer;
    fail(beater->fleet, "register", err);
    beater->registered = err->code == 0;
    beater->fleet->registered += beater->registered;
    if (!beater->registered)
        return;
    poll(beater, 0);
    int64_t first_ms = loop_now_ms(beater->fleet->loop) +
                       rand_r(&(unsigned){(unsigned)beater->incarnation}) % BEAT_EVERY_MS;
    loop_timer_set(beater->fleet->loop, &beater->timer, first_ms, beat, beater);
}

static void start_beater(struct fleet *fleet, int at)
{
    struct beater *beater = &fleet->beaters[at];
    struct rpc_options options = {.timeout_ms = 60000, .retry = true};
    Muster__RegisterNodeRequest request = MUSTER__REGISTER_NODE_REQUEST__INIT;
    beater->fleet = fleet;
    beater->client = fleet->clients[at % CONNECTIONS];
    beater->incarnation = (uint64_t)at + 1;
    snprintf(beater->name, sizeof beater->name, "beat%d", at);
    request.name = request.address = beater->name;
    request.incarnation = beater->incarnation;
    request.slots = 8;
    request.cpus = 8;
    request.memory_bytes = UINT64_C(1) << 36;
    request.port_first = 20000;
    request.port_last = 20100;
    fleet->failed += rpc_client_call(beater->client, &muster__nodes__descriptor, "RegisterNode",
                                     &request.base, &options, registered, beater, NULL) < 0;
}

/* Agents */

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

static int start_agent(struct fleet *fleet, const char *url, const char *token, int at,
                       struct error *err)
{
    static const char *const environment[] = {NULL};
    char name[24], hub[96];
    snprintf(name, sizeof name, "agent%d", at);
    snprintf(hub, sizeof hub, "ipc://%s/%d.sock", fleet->hubs, at);
    struct agent_options options = {.name = name,
                                    .coordinator = url,
                                    .token = token,
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
    return agent_new(&options, &fleet->env, fleet->loop, &nothing, &fleet->all_agents[at], err);
}

static void probe(void *arg);

static void probed(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct fleet *fleet = arg;
    (void)answer;
    fail(fleet, "probe", err);
    sample(fleet, fleet->probe_s);
    loop_timer_set(fleet->loop, &fleet->probe_timer, loop_now_ms(fleet->loop) + PROBE_EVERY_MS,
                   probe, fleet);
}

static void probe(void *arg)
{
    struct fleet *fleet = arg;
    struct rpc_options options = {.timeout_ms = CALL_TIMEOUT_MS};
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    fleet->probe_s = now_s();
    fleet->failed += rpc_client_call(fleet->probe, &muster__coordinator__descriptor, "Version",
                                     &request.base, &options, probed, fleet, NULL) < 0;
}

/* Together */

static void look(void *arg)
{
    struct fleet *fleet = arg;
    int count = fleet->registered;
    if (fleet->agents)
        for (int i = count = 0; i < fleet->count; i++)
            count += agent_registered(fleet->all_agents[i]);
    fleet->registered = count;
    if (count < fleet->count) {
        loop_timer_set(fleet->loop, &fleet->look, loop_now_ms(fleet->loop) + LOOK_EVERY_MS, look,
                       fleet);
        return;
    }
    fleet->ready_s = now_s();
    printf("ready %.3f\n", fleet->ready_s - fleet->start_s);
    fflush(stdout);
    if (fleet->agents)
        probe(fleet);
    loop_timer_set(fleet->loop, &fleet->end,
                   loop_now_ms(fleet->loop) + (int64_t)(fleet->seconds * 1000), end, fleet);
}

static int start(struct fleet *fleet, const char *url, const char *token, struct error *err)
{
    int rc = loop_new(&fleet->loop, err);
    if (rc == 0)
        rc = env_os_init(&fleet->env, fleet->loop, err);
    if (rc == 0)
        rc = rpc_client_new(&fleet->env, fleet->loop, url, token, &fleet->probe, err);
    for (int i = 0; rc == 0 && !fleet->agents && i < CONNECTIONS; i++)
        rc = rpc_client_new(&fleet->env, fleet->loop, url, token, &fleet->clients[i], err);
    fleet->start_s = now_s();
    for (int i = 0; rc == 0 && i < fleet->count; i++) {
        if (fleet->agents)
            rc = start_agent(fleet, url, token, i, err);
        else
            start_beater(fleet, i);
    }
    if (rc == 0)
        look(fleet);
    return rc;
}

int main(int argc, char **argv)
{
    static struct fleet fleet;
    struct error err = {0};
    fleet.count = argc == 6 ? (int)strtol(argv[4], NULL, 10) : 0;
    fleet.seconds = argc == 6 ? strtod(argv[5], NULL) : 0;
    fleet.agents = argc == 6 && strcmp(argv[3], "agents") == 0;
    if (fleet.count < 1 || fleet.count > COUNT_MAX || fleet.seconds <= 0) {
        fprintf(stderr, "usage: fleet URL TOKEN agents|beats COUNT SECONDS\n");
        return 2;
    }
    snprintf(fleet.hubs, sizeof fleet.hubs, "/tmp/muster-fleet-%d", (int)getpid());
    fleet.all_agents = calloc((size_t)fleet.count, sizeof(struct agent *));
    fleet.beaters = calloc((size_t)fleet.count, sizeof *fleet.beaters);
    fleet.samples_ms = calloc(SAMPLES_MAX, sizeof *fleet.samples_ms);
    if (!fleet.all_agents || !fleet.beaters || !fleet.samples_ms ||
        (fleet.agents && mkdir(fleet.hubs, 0700) < 0) ||
        start(&fleet, argv[1], argv[2], &err) < 0) {
        fprintf(stderr, "fleet: %s\n", err.text);
        return 3;
    }
    loop_run(fleet.loop);
    return 0;
}
