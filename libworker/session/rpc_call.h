/* Calls of WorkerHub from any thread, performed on one thread with a loop of its own.
 *
 * hub_call waits for the answer, so it must not be called on the loop's thread; what runs there
 * uses the client itself.
 */
#ifndef SESSION_RPC_CALL_H
#define SESSION_RPC_CALL_H

#include <pthread.h>

#include "common/base/error.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/client.h"
#include "common/rpc/frame.h"
#include "common/rpc/message.h"

struct hub {
    struct env env;
    struct loop *loop;
    struct rpc_client *client; /* loop thread only */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of the newest token */
    char token[FRAME_TOKEN_MAX + 1];
};

/* Start the thread and connect in the background. */
int hub_open(struct hub *hub, const char *url, const char *token, struct error *err);

/* Stop the thread; calls in flight end with E_CANCELLED. Zeroed memory is allowed. */
void hub_close(struct hub *hub);

/* The answer is the caller's: rpc_message_free. */
int hub_call(struct hub *hub, const char *method, const ProtobufCMessage *request,
             const struct rpc_options *options, ProtobufCMessage **ret_answer, struct error *err);

/* Use this token from now on. */
void hub_set_token(struct hub *hub, const char *token);

#endif
