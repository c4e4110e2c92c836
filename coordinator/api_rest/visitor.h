/* The origin of a request, and whether another page led a browser here. Pure except for the tables
 * of sessions and tokens. Loop thread only.
 *
 * A session has two halves. The cookie is HttpOnly, but is sent to every port of its host (RFC
 * 6265, 8.5): a tenant's own server on another port sees it. The other half is in the answer to the
 * login. The page keeps it in localStorage, which belongs to this port alone, and sends it in
 * X-Muster-Session. Neither is useful without the other, and a foreign page can neither send the
 * header nor read the storage. (A cookie named __Host- would need TLS, and is sent to all ports
 * too.)
 */
#ifndef API_REST_VISITOR_H
#define API_REST_VISITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "coordinator/api_rest/http.h"
#include "coordinator/api_rest/session.h"

struct service;

extern const char visitor_cookie[]; /* "muster_session" */

const char *visitor_bearer(const struct http_request *request); /* NULL = none */
bool visitor_changes(const struct http_request *request);       /* neither GET nor HEAD */

/* Both halves of the session this request carries; false if one is missing. */
bool visitor_session(const struct http_request *request, char ret[SESSION_ID_MAX]);

/* The token this request carries, "" if none. E_PERMISSION_DENIED for a change by session without
 * X-Muster-Request. */
int visitor_token(struct sessions *sessions, const struct http_request *request, const char **ret,
                  struct error *err);

/* The owner of this request's loop time (budget_owner_key); 0: it has no valid token. */
uint64_t visitor_owner_key(struct sessions *sessions, struct service *service,
                           const struct http_request *request);

/* E_PERMISSION_DENIED without X-Muster-Request: 1; E_INVALID_ARGUMENT for a body not declared as
 * JSON. A form of a foreign page can do neither. For login and logout. */
int visitor_check_form(const struct http_request *request, struct error *err);

/* The browser speaks TLS, to us or to the proxy in front of us. */
bool visitor_is_secure(const struct http_request *request);

/* Host is an address, localhost, this machine's name, or one of `names` (NULL-terminated, may be
 * NULL). Any other may be a name that a foreign page was loaded by and that was led here since. */
bool visitor_host_known(const struct http_request *request, const char *const *names);

#endif
