/* What the parts of the fleet's program share. */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include <stdbool.h>

#include "common/env/env.h"
#include "common/env/net_url.h"
#include "common/loop/loop.h"

struct agent;
struct beater;
struct rpc_client;

struct fleet {
    struct env env;
    struct loop *loop;
    const char *url, *token, *folder; /* keys and sockets of all nodes lie in the folder */
    int count, started, registered, failed;
    double seconds, start_s, ready_s;
    bool agents;
    bool returns; /* a restart is expected: failures are part of it */
    struct agent **all_agents;
    struct beater *beaters;
    int left, returned; /* of the beaters: lost their connection, and were heard after it */
    struct rpc_client *probe;
    double probe_s;
    float *samples_ms;
    int samples;
    struct loop_timer start, look, probe_timer, end;
};

double now_s(void);

/* A call that was asked at `since_s` is answered. */
void fleet_sample(struct fleet *fleet, double since_s);

/* Counted, and the first one shown. */
void fleet_fail(struct fleet *fleet, const char *what, const struct error *err);

/* The address by which node `at` proves its key; without a key where `at` is below 0. */
int fleet_address(const struct fleet *fleet, int at, char ret[NET_ADDRESS_MAX], struct error *err);

/* Of the nodes that only speak: memory for all; one; what a restart did, as JSON. */
int beats_init(struct fleet *fleet, struct error *err);
int beats_start(struct fleet *fleet, int at, struct error *err);

/* Real agents. */
int agents_init(struct fleet *fleet, struct error *err);
int agents_start(struct fleet *fleet, int at, struct error *err);
int agents_registered(const struct fleet *fleet);
void agents_probe(struct fleet *fleet);
void agents_end(const struct fleet *fleet);

#endif
