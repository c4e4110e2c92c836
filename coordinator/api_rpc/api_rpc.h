/* Serves the methods of service.h over RPC: every row becomes a method of the server, every call a
 * service_request, every answer a frame. Owned by the coordinator; loop thread only. */
#ifndef API_RPC_API_RPC_H
#define API_RPC_API_RPC_H

#include "common/base/error.h"

struct rpc_server;
struct service;
struct api_rpc;

/* Both outlive it. */
int api_rpc_new(struct rpc_server *server, struct service *service, struct api_rpc **ret,
                struct error *err);
void api_rpc_free(struct api_rpc *api); /* NULL is allowed */

#endif
