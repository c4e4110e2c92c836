/* One open call, from its start to its answer, and the audit trail's text about it. Owned by the
 * service; loop thread only. */
#ifndef API_RPC_OPEN_CALL_H
#define API_RPC_OPEN_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/token.h"
#include "common/loop/loop.h"
#include "coordinator/api_rpc/budget.h"
#include "coordinator/api_rpc/service_request.h"

struct connection;
struct service;
struct service_method;
struct service_trace;

struct service_call {
    uint64_t id;
    const struct service_method *method;
    const struct store_token *caller; /* NULL: without a token */
    unsigned role;
    ProtobufCMessage *request; /* own copy, only for reads */
    int64_t deadline_ms;
    struct connection *connection; /* of a read over a connection, else NULL */
    service_answer_fn answer;
    void *arg;
    uint64_t tag;
    uint64_t sequence; /* of the report in this call: acknowledged by the answer */
    struct list link;  /* in a waiting list */
    struct budget *budget;
    struct budget_ready ready;
    struct list in_connection; /* in connection->reads */
    struct loop_timer timer;
    struct service *service;
    char key[160];               /* of its waiting list, "" if none */
    struct error *refusal;       /* answered once the turn is on disk (service_refuse), or NULL */
    struct service_trace *trace; /* of audited changes, else NULL */
};

struct service_trace {
    char carrier[8], peer[64];
    char object[256], detail[256]; /* what was changed; never a secret */
    char plain[TOKEN_TEXT_MAX];    /* of a token being made: only for its answer */
    uint32_t counts[2];            /* only for its answer */
    bool written;                  /* the audit trail has the entry */
};

#endif
