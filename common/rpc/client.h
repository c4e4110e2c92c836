/* Calls a server over env.net. Every call completes exactly once, on the loop thread and never
 * inside rpc_client_call. Its result is the answer, the server's error, DEADLINE_EXCEEDED,
 * UNAVAILABLE (not connected, connection lost) or CANCELLED (rpc_client_free). Many calls may be in
 * flight; long ones do not delay short ones. Loop thread only. */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"

struct env;
struct loop;
struct rpc_client;

enum {
    RPC_CLIENT_DEFAULT_TIMEOUT_MS = 10000,
    RPC_CLIENT_BACKOFF_MIN_MS = 50, /* between retries: doubled each time, jittered by half */
    RPC_CLIENT_BACKOFF_MAX_MS = 1000,
    RPC_CLIENT_OPEN_CALLS_MAX = 4096,
};

struct rpc_options {    /* NULL or zeroed: the defaults */
    int64_t timeout_ms; /* whole call, retries included; 0 = RPC_CLIENT_DEFAULT_TIMEOUT_MS */
    bool retry;         /* UNAVAILABLE is retried until the deadline: only for calls that may run
                         * twice, or that have an idempotency key */
    const char *idempotency_key; /* copied; NULL = none */
};

/* `err->code` is 0 with an answer of the method's answer type, valid during the call; else the
 * error, and `answer` is NULL. New calls may be made from inside. */
typedef void (*rpc_done)(void *arg, const struct error *err, const ProtobufCMessage *answer);

/* Connects in the background. `token` may be NULL. `env` and `loop` must outlive the client. */
int rpc_client_new(struct env *env, struct loop *loop, const char *url, const char *token,
                   struct rpc_client **ret, struct error *err);

/* For calls and retries sent from now on. E_INVALID_ARGUMENT if too long. */
int rpc_client_set_token(struct rpc_client *client, const char *token, struct error *err);

/* Completes every open call with E_CANCELLED first, inside this call. Accepts NULL. Not from inside
 * an rpc_done of this client. */
void rpc_client_free(struct rpc_client *client);

/* `method` by its schema name ("SubmitJob"); `request` is copied and must be of its request type
 * (asserted). Fails only without starting anything: E_NOT_FOUND (no such method), E_OUT_OF_RANGE
 * (too large), E_RESOURCE_EXHAUSTED (too many open calls); then `done` is never called. */
int rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
                    const char *method, const ProtobufCMessage *request,
                    const struct rpc_options *options, rpc_done done, void *arg, struct error *err);

#endif
