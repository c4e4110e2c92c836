/* Receives calls from env.net, finds their handler, and answers each exactly once. The handler
 * answers now or later (a long poll answers late). After the call's deadline the server does.
 * Loop thread only.
 *
 * Malformed calls never reach a handler: an unreadable frame or payload is INVALID_ARGUMENT, an
 * unknown method UNIMPLEMENTED, one too large RESOURCE_EXHAUSTED. The service checks tokens, from
 * the envelope alone and before the payload is unpacked, because a stranger could make unpacking
 * expensive.
 *
 *       received ──► admitted ──► handler ──► answered (rpc_call_answer, rpc_call_fail: freed)
 *               └──► refused             └──► expired  (deadline + RPC_SERVER_GRACE_MS:
 *                                                       DEADLINE_EXCEEDED, freed)
 *
 * After either the call does not exist any more: keep its id, not its pointer, and use
 * rpc_server_find.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/env/net.h"

struct env;
struct loop;
struct rpc_server;
struct rpc_call;

enum {
    RPC_SERVER_DEFAULT_TIMEOUT_MS = 30000, /* of a request without one */
    RPC_SERVER_TIMEOUT_MAX_MS = 600000,    /* longer timeouts are reduced to it */
    RPC_SERVER_GRACE_MS = 100,             /* after the deadline the server answers itself */
    RPC_SERVER_LONG_POLL_MARGIN_MS = 200,  /* long polls answer this long before the deadline */
    RPC_SERVER_METHODS_MAX = 64,
};

/* On the loop thread, inside no lock. Answer at once or keep rpc_call_id and answer later. */
typedef void (*rpc_handler)(void *arg, struct rpc_call *call);
typedef void (*rpc_gone_fn)(void *arg, uint64_t peer);

/* Listen. "tcp://127.0.0.1:0" uses a free port; rpc_server_url returns it. Add the methods before
 * the loop turns again. `env` and `loop` are borrowed and must outlive the server. */
int rpc_server_new(struct env *env, struct loop *loop, const char *url, int max_in_flight,
                   struct rpc_server **ret, struct error *err);
const char *rpc_server_url(const struct rpc_server *server);

/* `method` by its schema name ("SubmitJob"): E_NOT_FOUND if the service has none, E_ALREADY_EXISTS
 * on the second time, E_RESOURCE_EXHAUSTED beyond RPC_SERVER_METHODS_MAX. */
int rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *service,
                   const char *method, rpc_handler fn, void *arg, struct error *err);

/* The facts about a call before its payload is unpacked; all borrowed, valid during the call. */
struct rpc_knock {
    void *arg;          /* of rpc_server_add */
    const char *method; /* "Coordinator.SubmitJob" */
    const char *token;  /* "" if none */
    uint64_t peer;      /* as in rpc_gone_fn */
    const char *key;    /* proved by the connection, as net.peer_key; "" = none */
    void **peer_data;   /* of the connection, as net.peer_data; NULL = none */
    size_t payload_bytes;
    size_t *ret_parts_max; /* of the payload (message.h); may be made less */
};

/* 0 admits the call, and rpc_call_caller is *ret_caller; otherwise the caller gets `err`. */
typedef int (*rpc_admit_fn)(void *arg, const struct rpc_knock *knock, void **ret_caller,
                            struct error *err);
/* A call that was admitted is over: answered, expired, dropped, or its payload was malformed. */
typedef void (*rpc_leave_fn)(void *arg, void *caller);

/* Classify the peer of a call that was admitted, or (NET_STRANGER) refused for its token; as
 * net.classify. */
void rpc_server_classify(struct rpc_server *server, uint64_t peer, enum net_standing standing,
                         uint64_t whose);

/* Without it every call is admitted. `on_leave` may be NULL. From then on the transport treats
 * peers as strangers until rpc_server_classify. */
void rpc_server_on_knock(struct rpc_server *server, rpc_admit_fn on_knock, rpc_leave_fn on_leave,
                         void *arg);

/* A connection is closed. Its open calls stay open (answers are dropped). One listener. */
void rpc_server_on_gone(struct rpc_server *server, rpc_gone_fn fn, void *arg);

/* Refuses new calls and drops the open ones unanswered, like a crash. Accepts NULL. */
void rpc_server_free(struct rpc_server *server);

/* The open call with this id; NULL once it was answered or has expired. */
struct rpc_call *rpc_server_find(struct rpc_server *server, uint64_t id);

struct rpc_server_stats {
    uint64_t calls;    /* that reached a handler */
    uint64_t failures; /* answered with a code by their handler */
    uint64_t refused;  /* malformed, too large, unknown method, not admitted */
    uint64_t expired;  /* answered by the server after the deadline */
    uint32_t open;     /* now */
};
void rpc_server_stats(const struct rpc_server *server, struct rpc_server_stats *ret);

void rpc_server_peer_name(const struct rpc_server *server, uint64_t peer,
                          char ret[NET_PEER_NAME_MAX]); /* "" = unknown */

#endif
