#include "coordinator/api_rest/visitor.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/budget.h"
#include "coordinator/api_rpc/service_admit.h"

enum { HOST_MAX = 256 };

const char visitor_cookie[] = "muster_session";

const char *visitor_bearer(const struct http_request *request)
{
    const char *text = http_header(request, "Authorization");
    return text && strncasecmp(text, "Bearer ", 7) == 0 ? text + 7 : NULL;
}

bool visitor_changes(const struct http_request *request)
{
    const char *method = http_method(request);
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

bool visitor_session(const struct http_request *request, char ret[SESSION_ID_MAX])
{
    const char *cookie = http_cookie(request, visitor_cookie);
    const char *half = http_header(request, "X-Muster-Session");
    return cookie && half && !str_printf(ret, SESSION_ID_MAX, "%s.%s", cookie, half);
}

static int check_mark(const struct http_request *request, const char *what, struct error *err)
{
    const char *mark = http_header(request, "X-Muster-Request");
    if (mark && strcmp(mark, "1") == 0)
        return 0;
    error_set(err, E_PERMISSION_DENIED, "%s the header X-Muster-Request", what);
    error_hint(err, "send X-Muster-Request: 1, or a bearer token");
    return E_PERMISSION_DENIED;
}

int visitor_token(struct sessions *sessions, const struct http_request *request, const char **ret,
                  struct error *err)
{
    char id[SESSION_ID_MAX];
    *ret = visitor_bearer(request);
    if (*ret)
        return 0;
    *ret = "";
    const char *token = visitor_session(request, id) ? session_token(sessions, id) : NULL;
    if (!token)
        return 0;
    if (visitor_changes(request) && check_mark(request, "changes by cookie need", err))
        return err->code;
    *ret = token;
    return 0;
}

uint64_t visitor_owner_key(struct sessions *sessions, struct service *service,
                           const struct http_request *request)
{
    const struct store_token *caller;
    const char *token;
    struct error err = {0};
    if (visitor_token(sessions, request, &token, &err) ||
        service_identify(service, token, &caller, &err))
        return 0;
    return budget_owner_key(caller);
}

int visitor_check_form(const struct http_request *request, struct error *err)
{
    static const char json[] = "application/json";
    const char *type = http_header(request, "Content-Type");
    size_t size;
    int rc = check_mark(request, "this needs", err);
    (void)http_body(request, &size);
    if (rc || size == 0)
        return rc;
    if (type && strncasecmp(type, json, sizeof(json) - 1) == 0)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "the body must be sent as Content-Type: %s", json);
}

/* A client that claims this falsely only loses its own cookie. */
bool visitor_is_secure(const struct http_request *request)
{
    const char *proto = http_header(request, "X-Forwarded-Proto");
    return http_is_tls(request) || (proto && strcasecmp(proto, "https") == 0);
}

/* Without the port. */
static bool read_host(const char *header, char ret[HOST_MAX])
{
    bool bracket = header[0] == '[';
    const char *end = bracket ? strchr(header, ']') : strchr(header, ':');
    size_t size = end ? (size_t)(end - header) : strlen(header);
    if (size >= HOST_MAX || (bracket && !end))
        return false;
    memcpy(ret, header + bracket, size - bracket);
    ret[size - bracket] = 0;
    return true;
}

static bool is_address(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

bool visitor_host_known(const struct http_request *request, const char *const *names)
{
    const char *header = http_header(request, "Host");
    char host[HOST_MAX], own[HOST_MAX] = "";
    if (!header) /* HTTP/1.0: no browser */
        return true;
    if (!read_host(header, host))
        return false;
    (void)gethostname(own, sizeof(own) - 1);
    if (is_address(host) || strcasecmp(host, "localhost") == 0 || strcasecmp(host, own) == 0)
        return true;
    for (int i = 0; names && names[i]; i++)
        if (strcasecmp(host, names[i]) == 0)
            return true;
    return false;
}
