/* Live streams (server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html)
 * made of long polls: each answer is written and leads to the next call, so a stream sees exactly
 * what a polling client would. The first call does not wait, so that errors become HTTP errors.
 * Owned by api_rest; loop thread only.
 */
#ifndef API_REST_STREAM_H
#define API_REST_STREAM_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "coordinator/api_rest/http.h"
#include "coordinator/api_rest/routes.h"

enum { STREAM_CALL_MS = 15000 }; /* one long poll; an empty one becomes a ping */

struct stream {
    const struct route *route;
    struct http_request *request;
    ProtobufCMessage *message; /* of the next call; owned */
    bool started, gone;
    bool ended; /* by stream_close: its request is invalid, the pending answer is dropped */
};

/* Takes ownership of the message. With `Last-Event-ID` it continues from there. */
void stream_init(struct stream *stream, const struct route *route, struct http_request *request,
                 ProtobufCMessage *message);
void stream_fini(struct stream *stream); /* leaves the HTTP request alone */

/* Write one answer. False: the stream has been ended and its request is invalid. True: make the
 * next call with stream->message. */
bool stream_answer(struct stream *stream, const struct error *err, const ProtobufCMessage *answer);

/* End it while its call is pending: stream_answer then returns false. */
void stream_close(struct stream *stream, const struct error *err);

#endif
