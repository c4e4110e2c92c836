/* Service WorkerHub for the workers of this node. Each call is checked (token, sizes) and becomes
 * an event of the core; answers come back as actions, at once or much later. CommitCheckpoint and
 * Board go on to the coordinator with this node's name on them, a few of each worker at a time: the
 * agent's own calls go the same way. Loop thread.
 */
#ifndef LINK_WORKER_SOCKET_H
#define LINK_WORKER_SOCKET_H

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/metric.h"
#include "common/base/error.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct worker_socket;
struct rpc_client;

enum {
    SOCKET_CALLS_MAX = 16384,  /* in flight: all that 256 workers may hold */
    SOCKET_METRICS_MAX = 4096, /* samples in one Progress: as many as a session sends */
    SOCKET_BEAT_MS = 500,      /* what workers are told to send Progress at */
    SOCKET_FORWARD_MS = 20000,
};

struct worker_claim { /* what a caller says, and what the kernel says of it */
    const char *token;
    bool old_ok; /* a token of an earlier generation will do */
    int64_t uid; /* of the calling process; -1 = not known */
};

struct socket_events {
    void *arg;
    /* Whose token this is, before anything else of its call is looked at. */
    int (*identify)(void *arg, const char *token, struct worker_key *ret, struct error *err);
    int (*authorize)(void *arg, const struct worker_key *key, const struct worker_claim *claim,
                     struct error *err);
    void (*event)(void *arg, struct agent_event *event); /* its time is the receiver's to set */
    void (*metric)(void *arg, const struct metric *metric);
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

/* Perform AGENT_ACTION_ANSWER or _REFUSE. A call that has expired is passed over. */
void worker_socket_answer(struct worker_socket *socket, const struct agent_action *action);

#endif
