/* An HTTP request as the message of its route's call: JSON body, query parameters and the name in
 * the path become fields, by the descriptors. Pure.
 */
#ifndef API_REST_REQUEST_H
#define API_REST_REQUEST_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "coordinator/api_rest/http.h"
#include "coordinator/api_rest/routes.h"

/* Freed with rpc_message_free. E_INVALID_ARGUMENT names the field, parameter or line. */
int request_message(const struct http_request *request, const struct route_match *match,
                    ProtobufCMessage **ret, struct error *err);

/* What a field is called in addresses. */
const char *request_parameter_name(const char *field);

/* Does the client ask for a stream? */
bool request_wants_stream(const struct http_request *request);

#endif
