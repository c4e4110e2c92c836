/* What MHD lets pass of a request's head and what two programs on the way may read differently
 * (RFC 9112, 6.3 and 11.2): refused before the body is read. HTTP thread.
 */
#ifndef API_REST_HTTP_FRAMING_H
#define API_REST_HTTP_FRAMING_H

#include <microhttpd.h>

struct http_line {                      /* the first of a request, as it came */
    const char *method, *uri, *version; /* `uri` may be NULL */
};

/* NULL: nothing is wrong. Else the error as JSON, and its status. */
const char *http_framing_fault(struct MHD_Connection *connection, const struct http_line *line,
                               int *ret_status);

#endif
