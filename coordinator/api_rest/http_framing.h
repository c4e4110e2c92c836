/* Refuses request heads that MHD accepts but that two programs on the way may read differently (RFC
 * 9112, 6.3 and 11.2), before the body is read. HTTP thread. */
#ifndef API_REST_HTTP_FRAMING_H
#define API_REST_HTTP_FRAMING_H

#include <microhttpd.h>

struct http_line {                      /* the first line of a request, as received */
    const char *method, *uri, *version; /* `uri` may be NULL */
};

/* NULL: nothing is wrong. Else the error as JSON, and its status. */
const char *http_framing_fault(struct MHD_Connection *connection, const struct http_line *line,
                               int *ret_status);

#endif
