/* A call that a server (server.h) received: its facts, and its answer. It is answered exactly once,
 * which frees it; its id stays valid for rpc_server_find. Loop thread only.
 */
#ifndef RPC_CALL_H
#define RPC_CALL_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/env/net.h"

struct rpc_call;
struct rpc_server;

/* All borrowed, valid until the call is answered. */
const ProtobufCMessage *rpc_call_request(const struct rpc_call *call); /* of the method's type */
const char *rpc_call_method(const struct rpc_call *call);              /* "Coordinator.SubmitJob" */
const char *rpc_call_token(const struct rpc_call *call);               /* "" if none */
const char *rpc_call_idempotency_key(const struct rpc_call *call);     /* "" if none */
uint64_t rpc_call_peer(const struct rpc_call *call);                   /* as in rpc_gone_fn */
void *rpc_call_caller(const struct rpc_call *call); /* from rpc_admit_fn, or NULL */
void rpc_call_peer_name(const struct rpc_call *call,
                        char ret[NET_PEER_NAME_MAX]); /* "" = unknown */
void rpc_call_peer_key(const struct rpc_call *call,
                       char ret[NET_PEER_KEY_MAX]);        /* "" = none proved */
void **rpc_call_peer_data(const struct rpc_call *call);    /* as rpc_knock.peer_data */
int64_t rpc_call_peer_uid(const struct rpc_call *call);    /* of a Unix socket, else -1 */
uint64_t rpc_call_id(const struct rpc_call *call);         /* unique in this process, never 0 */
int64_t rpc_call_deadline_ms(const struct rpc_call *call); /* loop time */
struct rpc_server *rpc_call_server(const struct rpc_call *call);

/* `answer` must be of the method's answer type (asserted). It is copied; the caller keeps it. An
 * answer too large for the wire becomes RESOURCE_EXHAUSTED. */
void rpc_call_answer(struct rpc_call *call, const ProtobufCMessage *answer);

/* Code, text, field and hint of `err`; its code must not be 0. */
void rpc_call_fail(struct rpc_call *call, const struct error *err);

#endif
