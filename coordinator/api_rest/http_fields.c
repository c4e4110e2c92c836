#include "coordinator/api_rest/http.h"

#include <string.h>
#include <strings.h>

#include "common/base/str.h"
#include "coordinator/api_rest/http_internal.h"

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->path;
}

const char *http_header(const struct http_request *request, const char *name)
{
    for (int i = 0; i < request->headers_count; i++)
        if (strcasecmp(request->headers[i].key, name) == 0)
            return request->headers[i].value;
    return NULL;
}

/* RFC 6265: pairs separated by "; ". The value is copied into the request's arena. */
const char *http_cookie(const struct http_request *request, const char *name)
{
    struct str rest = str_of(http_header(request, "Cookie")), part;
    size_t size = strlen(name);
    while (str_next(&rest, ';', &part)) {
        part = str_trim(part);
        if (part.size > size && part.data[size] == '=' && memcmp(part.data, name, size) == 0) {
            struct arena *arena = &((struct http_request *)(uintptr_t)request)->arena;
            return arena_strndup(arena, part.data + size + 1, part.size - size - 1);
        }
    }
    return NULL;
}

const struct http_pair *http_query(const struct http_request *request, int *ret_count)
{
    *ret_count = request->query_count;
    return request->query;
}

const char *http_body(const struct http_request *request, size_t *ret_size)
{
    *ret_size = request->body.size;
    return buf_cstr(&request->body);
}

void http_peer(const struct http_request *request, char *ret, size_t size)
{
    (void)str_copy(ret, size, request->peer);
}

bool http_body_too_large(const struct http_request *request)
{
    return request->too_large;
}

bool http_is_tls(const struct http_request *request)
{
    return request->http->tls;
}
