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
    bool ended; /* by stream_close: its request is gone, the answer it waits for is for nobody */
};

/* Takes the message over. `Last-Event-ID` makes it go on where a client was. */
void stream_init(struct stream *stream, const struct route *route, struct http_request *request,
                 ProtobufCMessage *message);
void stream_fini(struct stream *stream); /* leaves the HTTP request alone */

/* Write one answer; false when the stream is over: it has been ended then, and its request is gone.
 * True: make the next call with stream->message. */
bool stream_answer(struct stream *stream, const struct error *err, const ProtobufCMessage *answer);

/* End it while a call of its own is on the way: stream_answer says false to that one. */
void stream_close(struct stream *stream, const struct error *err);

#endif
