/* OpenAPI 3.0 of the routes table, with schemas derived from the messages' descriptors, so that it
 * always matches the server. Pure. */
#ifndef API_REST_OPENAPI_H
#define API_REST_OPENAPI_H

#include "common/base/buf.h"

int openapi_render(const char *version, struct buf *out);

#endif
