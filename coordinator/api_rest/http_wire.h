/* What MHD 0.9.75 receives, before it reads it. MHD takes a NUL in the head of a request for the
 * end of its line: the rest of the value is dropped, and a line that begins with one ends the head,
 * so that a proxy in front may see another request than we do. Here each NUL becomes SOH, which
 * http_framing refuses in a head; in a body, JSON and YAML refuse both.
 *
 * For that, recv and gnutls_record_recv of this program stand in front of the libraries', as in
 * common/env/net_nng_epipe.c. They change nothing on threads that have not asked for it.
 */
#ifndef API_REST_HTTP_WIRE_H
#define API_REST_HTTP_WIRE_H

#include <stdbool.h>

/* From now on for what MHD receives on this thread, which is its own; over TLS or plain. */
void http_wire_watch(bool tls);

#endif
