/* The limits of the HTTP server. */
#ifndef API_REST_HTTP_LIMITS_H
#define API_REST_HTTP_LIMITS_H

#include "common/base/limits.h"

enum {
    HTTP_BODY_MAX_BYTES = 1 << 20,     /* longer ones are answered with 413 */
    HTTP_DISCARD_MAX_BYTES = 16 << 20, /* read and thrown away before that; beyond, we hang up */
    HTTP_CONNECTIONS_MAX = MAX_HTTP_CONNECTIONS + 64, /* until closed ones are released */
    HTTP_IDLE_TIMEOUT_S = 30,
    HTTP_FIELDS_MAX = 64, /* query parameters, or headers, of a request; more are refused */
    HTTP_PATH_MAX = 1024,
    HTTP_TURN_MS = 10,                       /* of each turn of the loop: handling requests */
    HTTP_STREAM_BACKLOG_MAX_BYTES = 4 << 20, /* unread by the client: then we hang up */
    HTTP_UNREAD_MAX_BYTES = 512 << 20,       /* of all whole answers that clients have yet to read;
                                                 beyond it requests are answered with 503 */
};

#endif
