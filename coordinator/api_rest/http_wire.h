/* The bytes received by MHD 0.9.75, before it parses them. In a request's head MHD treats a NUL as
 * the end of its line. The rest of the value is dropped, and a line that begins with one ends the
 * head, so a proxy in front may see another request than we do. Here each NUL becomes SOH, which
 * http_framing refuses in a head; in a body, JSON and YAML refuse both.
 *
 * For that this program's recv and gnutls_record_recv replace the libraries', as in
 * common/env/net_nng_epipe.c. They change nothing on threads that have not requested it.
 */
#ifndef API_REST_HTTP_WIRE_H
#define API_REST_HTTP_WIRE_H

#include <stdbool.h>

/* From now on for what MHD receives on this thread, which is its own; over TLS or plain. */
void http_wire_watch(bool tls);

#endif
