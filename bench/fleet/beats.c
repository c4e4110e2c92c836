/* Nodes that only speak: register, a report a second, a long poll always open. After a restart of
 * the coordinator they go on as agents do (agent/link/coordinator_link.c), which register again
 * only where their node is unknown. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/fleet/fleet.h"
#include "common/rpc/client.h"
#include "proto/node.pb-c.h"

enum {
    BEAT_EVERY_MS = 1000,
    POLL_TIMEOUT_MS = 30000,
    CALL_TIMEOUT_MS = 10000,
    REGISTER_TIMEOUT_MS = 60000,
    AGAIN_MIN_MS = 100,
    AGAIN_SPAN_MS = 1900,
};

struct beater {
    struct fleet *fleet;
    struct rpc_client *client;
    char name[16];
    uint64_t incarnation, sequence, version;
    unsigned random;
    int64_t beat_ms;        /* when its next beat is due */
    double asked_s, left_s; /* 0 = it never lost its connection */
    bool asking, returned;
    struct loop_timer timer, again;
};

static void poll(void *arg);
static void announce(struct beater *beater);

static void heard(struct beater *beater)
{
    struct fleet *fleet = beater->fleet;
    if (beater->left_s == 0 || beater->returned || beater->asked_s < beater->left_s)
        return;
    beater->returned = true;
    fleet->returned++;
}

static void beaten(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    (void)answer;
    beater->asking = false;
    fleet_fail(beater->fleet, "report", err);
    fleet_sample(beater->fleet, beater->asked_s);
    if (err->code == 0)
        heard(beater);
    else if (err->code == E_NOT_FOUND)
        announce(beater);
}

/* The next beat is a second after this one was due, not after it went out: beats that one long
 * turn delays together would stay together for ever, and each would wait for all others. */
static void beat(void *arg)
{
    struct beater *beater = arg;
    struct loop *loop = beater->fleet->loop;
    struct rpc_options options = {.timeout_ms = CALL_TIMEOUT_MS};
    Muster__NodeReport report = MUSTER__NODE_REPORT__INIT;
    do
        beater->beat_ms += BEAT_EVERY_MS;
    while (beater->beat_ms <= loop_now_ms(loop));
    loop_timer_set(loop, &beater->timer, beater->beat_ms, beat, beater);
    if (beater->asking)
        return;
    report.node = beater->name;
    report.incarnation = beater->incarnation;
    report.sequence = ++beater->sequence;
    beater->asked_s = now_s();
    beater->asking = rpc_client_call(beater->client, &muster__nodes__descriptor, "Report",
                                     &report.base, &options, beaten, beater, NULL) == 0;
    beater->fleet->failed += !beater->asking;
}

static void polled(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    struct loop *loop = beater->fleet->loop;
    int64_t wait_ms = 0;
    beater->version = err->code ? 0 : ((const Muster__NodePollAnswer *)answer)->version;
    if (err->code == E_UNAVAILABLE && beater->left_s == 0) {
        beater->left_s = now_s();
        beater->fleet->left++;
    }
    if (err->code)
        wait_ms = AGAIN_MIN_MS + rand_r(&beater->random) % AGAIN_SPAN_MS;
    loop_timer_set(loop, &beater->again, loop_now_ms(loop) + wait_ms, poll, beater);
}

static void poll(void *arg)
{
    struct beater *beater = arg;
    struct rpc_options options = {.timeout_ms = POLL_TIMEOUT_MS};
    Muster__NodePollRequest request = MUSTER__NODE_POLL_REQUEST__INIT;
    request.node = beater->name;
    request.incarnation = beater->incarnation;
    request.version = beater->version;
    beater->fleet->failed += rpc_client_call(beater->client, &muster__nodes__descriptor, "Poll",
                                             &request.base, &options, polled, beater, NULL) < 0;
}

static void announced(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct beater *beater = arg;
    struct loop *loop = beater->fleet->loop;
    (void)answer;
    fleet_fail(beater->fleet, "register", err);
    if (err->code)
        return;
    if (beater->left_s == 0) {
        beater->fleet->registered++;
        poll(beater);
    }
    beater->beat_ms = loop_now_ms(loop) + rand_r(&beater->random) % BEAT_EVERY_MS;
    loop_timer_set(loop, &beater->timer, beater->beat_ms, beat, beater);
}

static void announce(struct beater *beater)
{
    struct rpc_options options = {.timeout_ms = REGISTER_TIMEOUT_MS, .retry = true};
    Muster__RegisterNodeRequest request = MUSTER__REGISTER_NODE_REQUEST__INIT;
    request.name = request.address = beater->name;
    request.incarnation = beater->incarnation;
    request.slots = 8;
    request.cpus = 8;
    request.memory_bytes = UINT64_C(1) << 36;
    request.port_first = 20000;
    request.port_last = 20100;
    beater->fleet->failed +=
        rpc_client_call(beater->client, &muster__nodes__descriptor, "RegisterNode", &request.base,
                        &options, announced, beater, NULL) < 0;
}

int beats_init(struct fleet *fleet, struct error *err)
{
    fleet->beaters = calloc((size_t)fleet->count, sizeof(*fleet->beaters));
    return fleet->beaters ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for nodes");
}

int beats_start(struct fleet *fleet, int at, struct error *err)
{
    char address[NET_ADDRESS_MAX];
    struct beater *beater = &fleet->beaters[at];
    beater->fleet = fleet;
    beater->incarnation = (uint64_t)at + 1;
    beater->random = (unsigned)at + 1;
    snprintf(beater->name, sizeof(beater->name), "beat%d", at);
    int rc = fleet_address(fleet, at, address, err);
    if (rc == 0)
        rc = rpc_client_new(&fleet->env, fleet->loop, address, fleet->token, &beater->client, err);
    if (rc == 0)
        announce(beater);
    return rc;
}
