#include "coordinator/api_rest/render.h"

#include <inttypes.h>
#include <string.h>

#include "common/rpc/transcode.h"

static const struct transcode_output_options whole = {.defaults = true};

static const struct http_pair plain_headers[] = {{"Cache-Control", "no-store"},
                                                 {"X-Content-Type-Options", "nosniff"}};

static void put_error(const struct error *err, struct buf *out);

struct http_content *prepare_message(struct http_request *request, int status,
                                     const ProtobufCMessage *message)
{
    struct buf body;
    struct error err = {0};
    buf_init(&body, RENDER_MAX_BYTES);
    int rc = transcode_to_json(message, &whole, &body, &err);
    if (!rc)
        rc = buf_char(&body, '\n');
    if (rc) {
        error_set(&err, E_RESOURCE_EXHAUSTED, "the answer is too large");
        status = error_http_status(err.code);
        buf_clear(&body);
        put_error(&err, &body);
    }
    const char *method = http_method(request);
    struct http_answer answer = {
        .status = status,
        .type = "application/json",
        .body = buf_cstr(&body),
        .size = body.size,
        .headers = {plain_headers[0], plain_headers[1]},
        .tagged = status == 200 && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0),
    };
    struct http_content *content = http_prepare(request, &answer);
    buf_fini(&body);
    return content;
}

void reply_message(struct http_request *request, int status, const ProtobufCMessage *message)
{
    struct http_content *content = prepare_message(request, status, message);
    http_reply_with(request, content, false);
    http_content_unref(content);
}

static void member(struct buf *out, const char *key, const char *value)
{
    if (!*value)
        return;
    (void)buf_printf(out, ",\"%s\":", key);
    (void)buf_json_string(out, value, strlen(value));
}

static void put_error(const struct error *err, struct buf *out)
{
    (void)buf_printf(out, "{\"error\":{\"code\":\"%s\"", error_name(err->code));
    member(out, "message", err->text);
    member(out, "field", err->field);
    member(out, "hint", err->hint);
    (void)buf_str(out, "}}\n");
}

void reply_error_as(struct http_request *request, int status, const struct error *err,
                    struct http_pair header)
{
    struct buf body;
    buf_init(&body, 1 << 16);
    put_error(err, &body);
    struct http_answer answer = {
        .status = status,
        .type = "application/json",
        .body = buf_cstr(&body),
        .size = body.size,
        .headers = {plain_headers[0], plain_headers[1], header},
    };
    http_reply(request, &answer);
    buf_fini(&body);
}

void reply_error(struct http_request *request, const struct error *err)
{
    struct http_pair header = {0};
    if (err->code == E_UNAUTHENTICATED)
        header = (struct http_pair){"WWW-Authenticate", "Bearer"};
    if (err->code == E_UNAVAILABLE || err->code == E_RESOURCE_EXHAUSTED)
        header = (struct http_pair){"Retry-After", "1"};
    reply_error_as(request, error_http_status(err->code), err, header);
}

void reply_text(struct http_request *request, int status, const char *type, const char *text)
{
    struct http_answer answer = {
        .status = status,
        .type = type,
        .body = text,
        .size = strlen(text),
        .headers = {plain_headers[0], plain_headers[1]},
    };
    http_reply(request, &answer);
}

int render_sse(const struct sse *event, struct buf *out)
{
    int rc = 0;
    if (event->name)
        rc = buf_printf(out, "event: %s\n", event->name);
    if (!rc && event->id)
        rc = buf_printf(out, "id: %" PRIu64 "\n", event->id);
    if (!rc)
        rc = buf_str(out, "data: ");
    /* JSON on one line: no line end can be inside. */
    if (!rc)
        rc = event->message ? transcode_to_json(event->message, &whole, out, NULL)
                            : buf_str(out, "{}");
    if (rc)
        return rc;
    return buf_str(out, "\n\n");
}
