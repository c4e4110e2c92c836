/* Blocking calls, one at a time or several at once: for the CLI and for tests. Owns a private loop,
 * environment and connection. Make one and keep it: a connection of NNG 1.5.2 cannot be released
 * before the process ends. One thread at a time, and not the thread of another loop. */
#ifndef RPC_SYNC_H
#define RPC_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/rpc/client.h"
#include "common/rpc/message.h"

struct rpc_sync;

/* Connects in the background; only a malformed url fails here. `token` may be NULL. */
int rpc_sync_new(const char *url, const char *token, struct rpc_sync **ret, struct error *err);
void rpc_sync_free(struct rpc_sync *sync); /* accepts NULL */

/* The caller owns the answer (rpc_message_free); it is unchanged on failure. Errors as in client.h.
 */
int rpc_sync_call(struct rpc_sync *sync, const ProtobufCServiceDescriptor *service,
                  const char *method, const ProtobufCMessage *request,
                  const struct rpc_options *options, ProtobufCMessage **ret_answer,
                  struct error *err);

struct rpc_sync_start { /* a call's options and its callback */
    struct rpc_options options;
    rpc_done done;
    void *arg;
};

/* Start a call. `how->done` runs inside a later function of this header and may call none of them.
 * Its `arg` must live until then. rpc_sync_free completes open calls with E_CANCELLED;
 * rpc_sync_cancel completes the calls with this `arg`. */
int rpc_sync_start(struct rpc_sync *sync, const ProtobufCServiceDescriptor *service,
                   const char *method, const ProtobufCMessage *request,
                   const struct rpc_sync_start *how, struct error *err);

void rpc_sync_cancel(struct rpc_sync *sync, const void *arg);

/* Waits until a started call has completed since the last wait, at most `wait_ms`; false if none
 * has. */
bool rpc_sync_wait(struct rpc_sync *sync, int64_t wait_ms);

/* The same, and it returns when a descriptor is ready, as poll(2) does: `revents` of each is set. A
 * regular file is always ready. An entry with fd -1 is skipped; no descriptor may be named twice.
 */
struct pollfd;
bool rpc_sync_wait_on(struct rpc_sync *sync, struct pollfd *fds, size_t count, int64_t wait_ms);

#endif
