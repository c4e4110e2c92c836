#include "coordinator/api_rest/page.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/store/embedded.h"

static const char *type_of(const char *name)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (str_ends(name, types[i].ending))
            return types[i].type;
    return "application/octet-stream";
}

static const struct embedded_file *find_file(const char *path)
{
    const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;
    if (strcmp(name, "chart.js") == 0)
        name = "chart.min.js";
    for (const struct embedded_file *file = web_files; file->name; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

/* A day: other servers of this host may be plain HTTP, and browsers use TLS for them this long. */
static const char stay_with_tls[] = "max-age=86400";

bool page_reply(struct http_request *request)
{
    const char *method = http_method(request);
    const struct embedded_file *file = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0
                                           ? find_file(http_path(request))
                                           : NULL;
    if (!file)
        return false;
    struct http_answer answer = {
        .status = 200,
        .type = type_of(file->name),
        .body = file->data,
        .size = file->size,
        .tagged = true,
        .headers =
            {
                {"Cache-Control", "no-cache"},
                {"X-Content-Type-Options", "nosniff"},
                {"Referrer-Policy", "no-referrer"},
                {"X-Frame-Options", "DENY"},
                {"Content-Security-Policy",
                 "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                 "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
                {http_is_tls(request) ? "Strict-Transport-Security" : NULL, stay_with_tls},
            },
    };
    http_reply(request, &answer);
    return true;
}
