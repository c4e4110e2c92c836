/* Names of methods on the wire: "Coordinator.SubmitJob", the service's short name and the method's,
 * both as in the schema. No state; any thread. */
#ifndef RPC_METHOD_H
#define RPC_METHOD_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/rpc/frame.h"

/* E_NOT_FOUND, with the nearest name, if the service has no such method. */
int rpc_method_find(const ProtobufCServiceDescriptor *service, const char *method,
                    char ret_name[FRAME_METHOD_MAX + 1], const ProtobufCMethodDescriptor **ret,
                    struct error *err);

#endif
