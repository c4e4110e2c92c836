#include "coordinator/api_rpc/api_rpc.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/murmur3.h"
#include "common/rpc/call.h"
#include "common/rpc/server.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/budget.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/api_rpc/service_audit.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"

enum { CALL_PARTS_MAX = 16384 }; /* of a call, except an agent's: a spec needs at most a quarter */

struct row { /* the handler's argument */
    struct api_rpc *api;
    const ProtobufCServiceDescriptor *service;
    const ProtobufCMethodDescriptor *method;
    const struct service_method *row;
    bool audited; /* the call's origin is recorded */
};

struct api_rpc {
    struct rpc_server *server;
    struct service *service;
    struct row rows[RPC_SERVER_METHODS_MAX];
};

/* Answers to expired calls are dropped. */
static void answer_call(void *arg, uint64_t tag, const struct error *err,
                        const ProtobufCMessage *answer)
{
    struct api_rpc *api = arg;
    struct rpc_call *call = rpc_server_find(api->server, tag);
    if (!call)
        return;
    if (err)
        rpc_call_fail(call, err);
    else
        rpc_call_answer(call, answer);
}

/* Classify an admitted caller; an agent's time belongs to its node. */
static void classify_caller(struct api_rpc *api, const struct rpc_knock *knock,
                            const struct service_request *request)
{
    uint64_t digest[2] = {0};
    bool agent = request->role == ACCESS_AGENT;
    if (!agent)
        digest[0] = budget_owner_key(request->caller);
    else if (knock->key && *knock->key)
        murmur3(knock->key, strlen(knock->key), digest);
    rpc_server_classify(api->server, knock->peer, agent ? NET_AGENT : NET_CALLER, digest[0]);
}

/* Uses only the envelope: a stranger's payload is never unpacked. */
static int admit_call(void *arg, const struct rpc_knock *knock, void **ret_caller,
                      struct error *err)
{
    struct api_rpc *api = arg;
    const struct row *row = knock->arg;
    char peer[NET_PEER_NAME_MAX] = "";
    if (row->audited)
        rpc_server_peer_name(api->server, knock->peer, peer);
    struct service_request request = {
        .method = row->method,
        .row = row->row,
        .service = row->service->short_name,
        .token = knock->token,
        .peer = knock->peer,
        .peer_data = knock->peer_data,
        .peer_key = knock->key,
        .carrier = "rpc",
        .peer_address = peer,
    };
    int rc = service_admit(api->service, &request, knock->payload_bytes, err);
    if (row->row->roles != ACCESS_AGENT)
        *knock->ret_parts_max = CALL_PARTS_MAX;
    *ret_caller = (void *)(uintptr_t)request.caller;
    if (rc)
        service_count_refusal(api->service);
    if (rc == E_UNAUTHENTICATED)
        rpc_server_classify(api->server, knock->peer, NET_STRANGER, 0);
    else if (!rc && request.caller)
        classify_caller(api, knock, &request);
    return rc;
}

static void handle_call(void *arg, struct rpc_call *call)
{
    const struct row *row = arg;
    char peer[NET_PEER_NAME_MAX] = "";
    char key[NET_PEER_KEY_MAX];
    const struct store_token *caller = rpc_call_caller(call);
    rpc_call_peer_key(call, key);
    if (row->audited)
        rpc_call_peer_name(call, peer);
    struct service_request request = {
        .method = row->method,
        .row = row->row,
        .service = row->service->short_name,
        .message = rpc_call_request(call),
        .token = rpc_call_token(call),
        .idempotency_key = rpc_call_idempotency_key(call),
        .deadline_ms = rpc_call_deadline_ms(call),
        .peer = rpc_call_peer(call),
        .peer_data = rpc_call_peer_data(call),
        .peer_key = key,
        .carrier = "rpc",
        .peer_address = peer,
        .answer = answer_call,
        .arg = row->api,
        .tag = rpc_call_id(call),
        .caller = caller,
        .role = caller ? access_role(caller->role) : 0,
        .admitted = true,
    };
    service_start(row->api->service, &request);
}

static void peer_gone(void *arg, uint64_t peer)
{
    struct api_rpc *api = arg;
    service_peer_gone(api->service, peer);
}

static int add_row(struct api_rpc *api, const struct service_method *method, struct row *row,
                   struct error *err)
{
    row->api = api;
    row->row = method;
    row->audited = service_audits(method);
    row->service = strcmp(method->service, "Nodes") == 0 ? &muster__nodes__descriptor
                                                         : &muster__coordinator__descriptor;
    row->method = protobuf_c_service_descriptor_get_method_by_name(row->service, method->name);
    return rpc_server_add(api->server, row->service, method->name, handle_call, row, err);
}

int api_rpc_new(struct rpc_server *server, struct service *service, struct api_rpc **ret,
                struct error *err)
{
    struct api_rpc *api = calloc(1, sizeof(*api));
    if (!api)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    api->server = server;
    api->service = service;
    int rc = 0;
    for (int i = 0; !rc && service_methods[i].name; i++)
        rc = add_row(api, &service_methods[i], &api->rows[i], err);
    if (rc) {
        free(api);
        return rc;
    }
    rpc_server_on_gone(server, peer_gone, api);
    rpc_server_on_knock(server, admit_call, NULL, api);
    *ret = api;
    return 0;
}

void api_rpc_free(struct api_rpc *api)
{
    free(api);
}
