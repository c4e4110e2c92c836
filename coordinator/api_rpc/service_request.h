/* One request as a carrier (RPC or REST) passes it to the service. Borrowed during the call. Loop
 * thread only. */
#ifndef API_RPC_SERVICE_REQUEST_H
#define API_RPC_SERVICE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "coordinator/store/store.h"

struct service_method; /* a row of the table (method.h) */

/* `err` NULL: `answer`, valid during the call. */
typedef void (*service_answer_fn)(void *arg, uint64_t tag, const struct error *err,
                                  const ProtobufCMessage *answer);

struct service_request {
    const ProtobufCMethodDescriptor *method;
    const struct service_method *row; /* of this method; NULL: it is searched */
    const char *service;              /* "Coordinator" or "Nodes" */
    const ProtobufCMessage *message;  /* of the method's input type; used only during the call */
    const char *token;
    const char *idempotency_key; /* "" = none */
    int64_t deadline_ms;         /* loop time */
    uint64_t peer;               /* connection, 0 without one */
    void **peer_data;            /* of the connection (net.peer_data); NULL = none */
    const char *carrier;         /* "rpc" or "rest" */
    const char *peer_address;    /* "" or NULL = unknown */
    const char *peer_key;        /* proved by the connection (net.peer_key); "" or NULL = none */
    service_answer_fn answer;    /* called exactly once, possibly inside service_start */
    void *arg;
    uint64_t tag;
    /* Set by service_admit. */
    const struct store_token *caller; /* NULL: the method needs no token */
    unsigned role;                    /* of the caller, enum access_role; 0 = none */
    bool admitted;
};

#endif
