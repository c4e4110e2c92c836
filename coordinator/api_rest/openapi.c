#include "coordinator/api_rest/openapi.h"

#include <ctype.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "coordinator/api_rest/openapi_schema.h"
#include "coordinator/api_rest/request.h"
#include "coordinator/api_rest/routes.h"
#include "proto/client.pb-c.h"

/* Constant parts of every document. */

static const char errors[] =
    "\"Error\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":"
    "\"object\",\"required\":[\"code\",\"message\"],\"properties\":{\"code\":{\"type\":\"string\","
    "\"enum\":[\"CANCELLED\",\"UNKNOWN\",\"INVALID_ARGUMENT\",\"DEADLINE_EXCEEDED\",\"NOT_FOUND\","
    "\"ALREADY_EXISTS\",\"PERMISSION_DENIED\",\"RESOURCE_EXHAUSTED\",\"FAILED_PRECONDITION\","
    "\"ABORTED\",\"OUT_OF_RANGE\",\"UNIMPLEMENTED\",\"INTERNAL\",\"UNAVAILABLE\",\"DATA_LOSS\","
    "\"UNAUTHENTICATED\"]},\"message\":{\"type\":\"string\"},\"field\":{\"type\":\"string\"},"
    "\"hint\":{\"type\":\"string\"}}}}}";

static const struct {
    int status;
    const char *what, *headers;
} failures[] = {
    {400, "INVALID_ARGUMENT or OUT_OF_RANGE: a value of the request is not possible", ""},
    {401, "UNAUTHENTICATED: no token, or none that is good",
     "\"WWW-Authenticate\":{\"schema\":{\"type\":\"string\"}}"},
    {403, "PERMISSION_DENIED: a token of this role may not", ""},
    {404, "NOT_FOUND: there is none of that name, or it is not the caller's", ""},
    {409, "ALREADY_EXISTS or ABORTED", ""},
    {412, "FAILED_PRECONDITION: not in the state it is in", ""},
    {413, "INVALID_ARGUMENT: the body is larger than 1 MiB", ""},
    {414, "INVALID_ARGUMENT: more than 1,024 bytes of path or 64 parameters", ""},
    {429, "RESOURCE_EXHAUSTED: too much at once, or for one answer",
     "\"Retry-After\":{\"schema\":{\"type\":\"integer\"}}"},
    {500, "INTERNAL, UNKNOWN or DATA_LOSS", ""},
    {503, "UNAVAILABLE: changes cannot be stored now, or too many answers wait for slow readers",
     "\"Retry-After\":{\"schema\":{\"type\":\"integer\"}}"},
};

static const char header_parameters[] =
    "\"IdempotencyKey\":{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"description\":\"Requests "
    "with the same key return the same "
    "job\",\"schema\":{\"type\":\"string\",\"maxLength\":127}},\"IfNoneMatch\":{\"name\":\"If-None-"
    "Match\",\"in\":\"header\",\"description\":\"The "
    "ETag of an answer "
    "before\",\"schema\":{\"type\":\"string\"}},\"LastEventID\":{\"name\":\"Last-Event-ID\",\"in\":"
    "\"header\",\"description\":\"For "
    "a stream: continue after the event with this "
    "id\",\"schema\":{\"type\":\"string\"}},\"MusterRequest\":{\"name\":\"X-Muster-Request\","
    "\"in\":\"header\",\"description\":\"1, "
    "where a session identifies the caller\",\"schema\":{\"type\":\"string\"}}";

static const char login_body[] =
    "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{\"type\":"
    "\"object\",\"required\":[\"token\"],\"properties\":{\"token\":{\"type\":\"string\"}},"
    "\"additionalProperties\":false}}}},";

/* One operation */

static bool is_get(const struct route *route)
{
    return strcmp(route->method, "GET") == 0;
}

static bool in_path(const struct route *route, const char *name)
{
    const char *open = strchr(route->path, '{');
    size_t size = strlen(name);
    return open && strncmp(open + 1, name, size) == 0 && open[1 + size] == '}';
}

static bool is_plain(const ProtobufCFieldDescriptor *field)
{
    return field->label != PROTOBUF_C_LABEL_REPEATED && field->type != PROTOBUF_C_TYPE_MESSAGE;
}

static void parameter(struct buf *out, int *count, const struct route *route,
                      const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = route_call(route)->input;
    bool path = in_path(route, field->name);
    (void)buf_printf(out, "%s{\"name\":\"%s\",\"in\":\"%s\"%s,\"schema\":", (*count)++ ? "," : "",
                     path ? field->name : request_parameter_name(field->name),
                     path ? "path" : "query",
                     path || openapi_is_required(type, field) ? ",\"required\":true" : "");
    if (path)
        (void)buf_printf(out, "{\"type\":\"string\",\"pattern\":\"^[^/:]+$\",\"maxLength\":%d}",
                         ROUTE_VALUE_MAX - 1);
    else
        openapi_parameter_schema(type, field, out);
    (void)buf_char(out, '}');
}

static void header_parameter(struct buf *out, int *count, const char *name)
{
    (void)buf_printf(out, "%s{\"$ref\":\"#/components/parameters/%s\"}", (*count)++ ? "," : "",
                     name);
}

static void parameters(struct buf *out, const struct route *route)
{
    const ProtobufCMessageDescriptor *type = route_call(route)->input;
    int count = 0;
    (void)buf_str(out, "\"parameters\":[");
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        bool constant = route->constant.field && strcmp(route->constant.field, field->name) == 0;
        if (in_path(route, field->name) ||
            (route->body == ROUTE_NO_BODY && is_plain(field) && !constant))
            parameter(out, &count, route, field);
    }
    if (route->body == ROUTE_SPEC_BODY)
        header_parameter(out, &count, "IdempotencyKey");
    if (is_get(route))
        header_parameter(out, &count, "IfNoneMatch");
    else
        header_parameter(out, &count, "MusterRequest");
    if (route->stream != ROUTE_NO_STREAM && route->stream != ROUTE_STREAM_JOB)
        header_parameter(out, &count, "LastEventID");
    (void)buf_str(out, "],");
}

static bool needs_body(const struct route *route, const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (openapi_is_required(type, &type->fields[i]) && !in_path(route, type->fields[i].name))
            return true;
    return false;
}

static void request_body(struct buf *out, struct openapi_schemas *schemas,
                         const struct route *route)
{
    const ProtobufCMessageDescriptor *type = route_call(route)->input;
    const char *without[3] = {NULL, NULL, NULL};
    char in_address[ROUTE_VALUE_MAX] = "";
    const char *open = strchr(route->path, '{');
    int count = 0;
    if (route->body == ROUTE_NO_BODY)
        return;
    if (route->body == ROUTE_SPEC_BODY)
        type = protobuf_c_message_descriptor_get_field_by_name(type, "spec")->descriptor;
    if (open) {
        size_t size = strcspn(open + 1, "}");
        memcpy(in_address, open + 1, size);
        without[count++] = in_address;
    }
    if (route->constant.field)
        without[count++] = route->constant.field;
    (void)buf_printf(out,
                     "\"requestBody\":{\"required\":%s,\"content\":{\"application/json\":{"
                     "\"schema\":",
                     needs_body(route, type) ? "true" : "false");
    if (route->body == ROUTE_SPEC_BODY)
        openapi_schema_ref(schemas, &(struct openapi_schema){type, true}, out);
    else
        openapi_body_put(schemas, type, without, out);
    (void)buf_str(out, "}}},");
}

static bool may_fail(const struct route *route, int status)
{
    bool call = route->kind == ROUTE_CALL, changes = !is_get(route);
    switch (status) {
    case 401:
    case 403:
        return !route->open || route->kind == ROUTE_LOGIN || route->kind == ROUTE_LOGOUT;
    case 404:
        return call && !route->open;
    case 409:
    case 412:
        return call && changes;
    case 413:
        return changes && route->kind != ROUTE_LOGOUT;
    case 503:
        return call || route->kind == ROUTE_READY;
    default:
        return call || route->kind == ROUTE_LOGIN;
    }
}

static void success_content(struct buf *out, struct openapi_schemas *schemas,
                            const struct route *route)
{
    static const char text[] = "\"content\":{\"text/plain\":{\"schema\":{\"type\":\"string\"}}}";
    static const char object[] =
        "\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\"}}}";
    switch (route->kind) {
    case ROUTE_CALL:
        (void)buf_str(out, "\"content\":{\"application/json\":{\"schema\":");
        openapi_schema_ref(schemas, &(struct openapi_schema){route_call(route)->output, false},
                           out);
        (void)buf_char(out, '}');
        if (route->stream != ROUTE_NO_STREAM)
            (void)buf_str(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\","
                               "\"description\":\"server-sent events; the data of each is a JSON "
                               "object on one line, the last event is named end\"}}");
        (void)buf_char(out, '}');
        return;
    case ROUTE_LOGIN:
    case ROUTE_LOGOUT:
        (void)buf_printf(out, "\"headers\":{\"Set-Cookie\":{\"schema\":{\"type\":\"string\"}}},%s",
                         object);
        return;
    case ROUTE_HEALTH:
    case ROUTE_READY:
    case ROUTE_METRICS:
        (void)buf_str(out, text);
        return;
    case ROUTE_OPENAPI:
        (void)buf_str(out, object);
        return;
    }
}

static void responses(struct buf *out, struct openapi_schemas *schemas, const struct route *route)
{
    bool tagged = route->kind == ROUTE_CALL && is_get(route);
    (void)buf_printf(out, "\"responses\":{\"%d\":{\"description\":\"done\",",
                     route->status ? route->status : 200);
    if (tagged)
        (void)buf_str(out, "\"headers\":{\"ETag\":{\"schema\":{\"type\":\"string\"}}},");
    success_content(out, schemas, route);
    (void)buf_char(out, '}');
    if (tagged)
        (void)buf_str(out, ",\"304\":{\"description\":\"as it was: If-None-Match names it\"}");
    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
        if (may_fail(route, failures[i].status))
            (void)buf_printf(out, ",\"%d\":{\"$ref\":\"#/components/responses/E%d\"}",
                             failures[i].status, failures[i].status);
    (void)buf_char(out, '}');
}

static void operation(struct buf *out, struct openapi_schemas *schemas, const struct route *route)
{
    (void)buf_char(out, '"');
    for (const char *c = route->method; *c; c++)
        (void)buf_char(out, (char)tolower((unsigned char)*c));
    (void)buf_printf(out, "\":{\"operationId\":\"%s\",\"summary\":\"%s\",%s", route->id,
                     route->summary, route->open ? "\"security\":[]," : "");
    if (route->kind == ROUTE_CALL) {
        parameters(out, route);
        request_body(out, schemas, route);
    }
    if (route->kind == ROUTE_LOGIN || route->kind == ROUTE_LOGOUT)
        (void)buf_str(out,
                      "\"parameters\":[{\"$ref\":\"#/components/parameters/MusterRequest\"}],");
    if (route->kind == ROUTE_LOGIN)
        (void)buf_str(out, login_body);
    responses(out, schemas, route);
    (void)buf_char(out, '}');
}

/* The whole */

static bool met_before(const struct route *route)
{
    for (const struct route *other = routes; other < route; other++)
        if (strcmp(other->path, route->path) == 0)
            return true;
    return false;
}

static void paths(struct buf *out, struct openapi_schemas *schemas)
{
    bool first = true;
    for (const struct route *route = routes; route->path; route++) {
        if (met_before(route))
            continue;
        (void)buf_printf(out, "%s\"%s\":{", first ? "" : ",", route->path);
        first = false;
        bool first_method = true;
        for (const struct route *other = route; other->path; other++) {
            if (strcmp(other->path, route->path) != 0)
                continue;
            if (!first_method)
                (void)buf_char(out, ',');
            first_method = false;
            operation(out, schemas, other);
        }
        (void)buf_char(out, '}');
    }
}

static void failure_responses(struct buf *out)
{
    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
        (void)buf_printf(out,
                         "%s\"E%d\":{\"description\":\"%s\",%s%s%s\"content\":{"
                         "\"application/json\":{\"schema\":{\"$ref\":"
                         "\"#/components/schemas/Error\"}}}}",
                         i ? "," : "", failures[i].status, failures[i].what,
                         *failures[i].headers ? "\"headers\":{" : "", failures[i].headers,
                         *failures[i].headers ? "}," : "");
}

int openapi_render(const char *version, struct buf *out)
{
    struct openapi_schemas schemas = {.count = 0};
    (void)buf_str(out, "{\"openapi\":\"3.0.3\",\"info\":{\"title\":\"Muster\",\"version\":");
    (void)buf_json_string(out, version, strlen(version));
    (void)buf_str(out, "},\"security\":[{\"bearer\":[]},{\"session\":[],\"page\":[]}],\"paths\":"
                       "{");
    paths(out, &schemas);
    (void)buf_str(out, "},\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                       "\"scheme\":\"bearer\"},\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\","
                       "\"name\":\"muster_session\"},\"page\":{\"type\":\"apiKey\",\"in\":"
                       "\"header\",\"name\":\"X-Muster-Session\",\"description\":\"the "
                       "half of a session that is in the answer to the login\"}},\"parameters\":{");
    (void)buf_str(out, header_parameters);
    (void)buf_str(out, "},\"responses\":{");
    failure_responses(out);
    (void)buf_str(out, "},\"schemas\":{");
    for (int i = 0; i < schemas.count; i++) { /* grows while it is walked */
        openapi_schema_put(&schemas, i, out);
        (void)buf_char(out, ',');
    }
    (void)buf_str(out, errors);
    (void)buf_str(out, "}}}\n");
    return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
}
