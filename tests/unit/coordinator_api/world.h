/* A coordinator on virtual time without a network: calls go straight into its service. The store
 * outlives coordinators, as a disk does. For tests of one file at a time.
 */
#ifndef COORDINATOR_API_WORLD_H
#define COORDINATOR_API_WORLD_H

#include <protobuf-c/protobuf-c.h>

#include "common/env/env.h"
#include "common/loop/loop.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/store.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"

struct world {
    char dir[64];
    int64_t now_ms;
    int64_t lag_ms; /* passes with each of the next `lags` readings of the clock */
    int lags;
    uint64_t random;
    struct clock clock;
    struct env env;
    struct loop *loop;
    struct store *store;
    struct coordinator *coordinator;
    int keep_jobs; /* of the next start; 0 = as usual */
    int64_t keep_ms;
    int keep_nodes;
    int64_t keep_nodes_ms;
    int64_t terminal_idle_ms;
    const char *pin;       /* of the next start: nodes are who has their key; NULL = by name */
    int64_t wall_ahead_ms; /* a wall clock that was set wrongly */
    char admin[TOKEN_MAX], agent[TOKEN_MAX];
};

struct answer { /* of one call; zeroed memory is a call not made yet */
    bool done;
    struct error err;
    ProtobufCMessage *message; /* NULL on failure; freed by answer_fini */
};

extern struct world world; /* of the test that runs: Criterion gives each a process */
void world_open(void);     /* .init and .fini of suites that want no more than this world */
void world_close(void);

void world_init(struct world *world);
void world_fini(struct world *world);
void world_restart(struct world *world); /* kill -9 and a new start on the same store */

/* Let time pass in steps of a millisecond, a turn of the loop each. */
void world_run(struct world *world, int64_t ms);

struct call {
    const ProtobufCServiceDescriptor *service;
    const char *method;
    const ProtobufCMessage *message;
    const char *token, *key;
    int64_t timeout_ms; /* 0 = 10 s */
    uint64_t peer;
    const char *peer_key; /* proved by the connection */
};

/* Start without a turn of the loop. `ret` must stay until done. */
void call_start(struct world *world, const struct call *call, struct answer *ret);

/* Start, and run turns until it is done. */
void call_now(struct world *world, const struct call *call, struct answer *ret);

/* `world` refuses the call with this code. */
void expect_refused(const struct call *call, int code);

/* A client's or an agent's call with the right token; aborts the test if it fails. */
const void *client(struct world *world, const char *method, const void *message,
                   struct answer *ret);
const void *agent(struct world *world, const char *method, const void *message, struct answer *ret);

void answer_fini(struct answer *answer);

/* Messages of `world` that many tests send: SubmitJob of a program "true" with the token and key
 * (NULL = none), and an agent of node n1 with so many slots, which must succeed. */
void submit_true(const char *name, const char *token, const char *key, struct answer *ret);
Muster__JobSpec spec_of(const char *name);
void register_node_of(uint64_t incarnation, uint32_t slots);
Muster__NodePollRequest poll_message(uint64_t version); /* of n1, incarnation 7 */

#endif
