/* Shared pieces of output: JSON answers, errors as {"error": {...}}, server-sent events. Each reply
 * ends the request. Loop thread only.
 */
#ifndef API_REST_RENDER_H
#define API_REST_RENDER_H

#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "coordinator/api_rest/http.h"

enum { RENDER_MAX_BYTES = 64 << 20 };

/* The content of a whole message, for one or more requests; with an ETag. One reference, the
 * caller's; an answer of 500 or above if it cannot be made. */
struct http_content *prepare_message(struct http_request *request, int status,
                                     const ProtobufCMessage *message);
void reply_message(struct http_request *request, int status, const ProtobufCMessage *message);
void reply_error(struct http_request *request, const struct error *err);
/* With another status than the code's own, and one more header (key NULL = none). */
void reply_error_as(struct http_request *request, int status, const struct error *err,
                    struct http_pair header);
void reply_text(struct http_request *request, int status, const char *type, const char *text);

/* One event of a stream: "event: name", "id: ...", "data: <message as JSON>". */
struct sse {
    const char *name;                /* NULL = unnamed */
    uint64_t id;                     /* 0 = none */
    const ProtobufCMessage *message; /* NULL = {} */
};
int render_sse(const struct sse *event, struct buf *out);

#endif
