/* Service WorkerHub for the workers of this node. Each call is checked (token, sizes) and becomes
 * an event of the core; answers return as actions, at once or much later. CommitCheckpoint and
 * Board are forwarded to the coordinator with this node's name, a few per worker at a time, because
 * the agent's own calls use the same connection. Loop thread. */
#ifndef LINK_WORKER_SOCKET_H
#define LINK_WORKER_SOCKET_H

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/metric.h"
#include "agent/core/pace.h"
#include "common/base/error.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct worker_socket;
struct rpc_client;

enum {
    SOCKET_CALLS_MAX = 16384,  /* in flight: the most that 256 workers may have */
    SOCKET_METRICS_MAX = 4096, /* samples in one Progress, as many as a session sends */
    SOCKET_BEAT_MS = 500,      /* interval of Progress that workers are given */
    SOCKET_FORWARD_MS = 20000,
};

struct worker_claim { /* the caller's token, and the kernel's facts about the caller */
    const char *token;
    bool old_ok; /* a token of an earlier generation is enough */
    int64_t uid; /* of the calling process; -1 = unknown */
};

struct socket_events {
    void *arg;
    /* The worker of this token, before any other part of the call is read. */
    int (*identify)(void *arg, const char *token, struct worker_key *ret, struct error *err);
    int (*authorize)(void *arg, const struct worker_key *key, const struct worker_claim *claim,
                     struct error *err);
    void (*event)(void *arg, struct agent_event *event); /* the receiver sets its time */
    void (*metric)(void *arg, const struct metric *metric);
    /* This worker completed steps; its program reported a number, whatever its rank is. */
    void (*stepped)(void *arg, const struct worker_key *key, const struct pace_mark *mark);
    void (*number)(void *arg, const struct worker_key *key, const char *name, double value);
};

struct socket_options { /* texts are copied */
    const char *url;
    const char *node;
    uint64_t incarnation;
    struct rpc_client *upstream; /* outlives the socket */
    struct socket_events events;
};

int worker_socket_new(const struct socket_options *options, struct env *env, struct loop *loop,
                      struct worker_socket **ret, struct error *err);
void worker_socket_free(struct worker_socket *socket); /* accepts NULL */
const char *worker_socket_url(const struct worker_socket *socket);

/* Perform AGENT_ACTION_ANSWER or _REFUSE. An expired call is ignored. */
void worker_socket_answer(struct worker_socket *socket, const struct agent_action *action);

#endif
