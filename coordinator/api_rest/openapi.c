#include "coordinator/api_rest/openapi.h"

#include <ctype.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"
#include "common/rpc/fields.h"
#include "coordinator/api_rest/routes.h"
#include "proto/client.pb-c.h"

enum { SCHEMAS_MAX = 64 };

struct schemas { /* messages met so far, in the order they are met */
    const ProtobufCMessageDescriptor *types[SCHEMAS_MAX];
    int count;
};

static void need(struct schemas *schemas, const ProtobufCMessageDescriptor *type)
{
    for (int i = 0; i < schemas->count; i++)
        if (schemas->types[i] == type)
            return;
    if (schemas->count < SCHEMAS_MAX)
        schemas->types[schemas->count++] = type;
}

/* Without its last brace. */
static void open_scalar(struct buf *out, const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        (void)buf_str(out, "{\"type\":\"integer\",\"format\":\"int32\"");
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        (void)buf_str(out, "{\"type\":\"integer\",\"format\":\"int64\",\"minimum\":0");
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        (void)buf_str(out, "{\"type\":\"string\",\"format\":\"int64\"");
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        (void)buf_str(out, "{\"type\":\"string\",\"format\":\"uint64\"");
        return;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        (void)buf_str(out, "{\"type\":\"number\",\"format\":\"double\"");
        return;
    case PROTOBUF_C_TYPE_BOOL:
        (void)buf_str(out, "{\"type\":\"boolean\"");
        return;
    case PROTOBUF_C_TYPE_STRING:
        (void)buf_str(out, "{\"type\":\"string\"");
        return;
    case PROTOBUF_C_TYPE_BYTES:
        (void)buf_str(out, "{\"type\":\"string\",\"format\":\"byte\"");
        return;
    case PROTOBUF_C_TYPE_ENUM: {
        const ProtobufCEnumDescriptor *type = field->descriptor;
        (void)buf_str(out, "{\"type\":\"string\",\"enum\":[");
        for (unsigned i = 0; i < type->n_values; i++)
            (void)buf_printf(out, "%s\"%s\"", i ? "," : "", type->values[i].name);
        (void)buf_str(out, "]");
        return;
    }
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessageDescriptor *type = field->descriptor;
        (void)buf_printf(out, "{\"$ref\":\"#/components/schemas/%s\"", type->name);
        return;
    }
    }
}

static void scalar(struct buf *out, const ProtobufCFieldDescriptor *field)
{
    open_scalar(out, field);
    (void)buf_str(out, field_is_optional(field) ? ",\"nullable\":true}" : "}");
}

static void field_schema(struct buf *out, struct schemas *schemas,
                         const ProtobufCFieldDescriptor *field)
{
    if (field_is_map(field)) {
        const ProtobufCMessageDescriptor *entry = field->descriptor;
        (void)buf_str(out, "{\"type\":\"object\",\"additionalProperties\":");
        field_schema(out, schemas, protobuf_c_message_descriptor_get_field_by_name(entry, "value"));
        (void)buf_str(out, "}");
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        need(schemas, field->descriptor);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        (void)buf_str(out, "{\"type\":\"array\",\"items\":");
    scalar(out, field);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        (void)buf_str(out, "}");
}

static void message_schema(struct buf *out, struct schemas *schemas,
                           const ProtobufCMessageDescriptor *type)
{
    (void)buf_printf(out, "\"%s\":{\"type\":\"object\",\"properties\":{", type->name);
    for (unsigned i = 0; i < type->n_fields; i++) {
        (void)buf_printf(out, "%s\"%s\":", i ? "," : "", type->fields[i].name);
        field_schema(out, schemas, &type->fields[i]);
    }
    (void)buf_str(out, "}}");
}

static void content(struct buf *out, const char *type, const ProtobufCMessageDescriptor *message)
{
    (void)buf_printf(out, "\"content\":{\"%s\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}",
                     type, message->name);
}

static void parameter(struct buf *out, bool *first, const char *where,
                      const ProtobufCFieldDescriptor *field)
{
    (void)buf_printf(out, "%s{\"name\":\"%s\",\"in\":\"%s\"%s,\"schema\":", *first ? "" : ",",
                     field->name, where, strcmp(where, "path") == 0 ? ",\"required\":true" : "");
    scalar(out, field);
    (void)buf_str(out, "}");
    *first = false;
}

static bool is_plain(const ProtobufCFieldDescriptor *field)
{
    return field->label != PROTOBUF_C_LABEL_REPEATED && field->type != PROTOBUF_C_TYPE_MESSAGE;
}

static void parameters(struct buf *out, const struct route *route,
                       const ProtobufCMessageDescriptor *input)
{
    const char *open = strchr(route->path, '{');
    bool first = true;
    (void)buf_str(out, ",\"parameters\":[");
    for (unsigned i = 0; i < input->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &input->fields[i];
        size_t size = strlen(field->name);
        bool in_path = open && strncmp(open + 1, field->name, size) == 0 && open[1 + size] == '}';
        bool constant = route->constant.field && strcmp(route->constant.field, field->name) == 0;
        if (in_path)
            parameter(out, &first, "path", field);
        else if (route->body == ROUTE_NO_BODY && is_plain(field) && !constant)
            parameter(out, &first, "query", field);
    }
    (void)buf_str(out, "]");
}

static void call_operation(struct buf *out, struct schemas *schemas, const struct route *route)
{
    const ProtobufCMethodDescriptor *call = route_call(route);
    const ProtobufCMessageDescriptor *body = call->input;
    if (route->body == ROUTE_SPEC_BODY)
        body = protobuf_c_message_descriptor_get_field_by_name(body, "spec")->descriptor;
    const char *open = strchr(route->path, '{');
    (void)buf_printf(out, ",\"operationId\":\"%s%s%.*s\"", call->name,
                     route->constant.value ? route->constant.value : "",
                     open ? (int)strcspn(open + 1, "}") : 0, open ? open + 1 : "");
    parameters(out, route, call->input);
    if (route->body != ROUTE_NO_BODY) {
        need(schemas, body);
        (void)buf_printf(out, ",\"requestBody\":{\"required\":%s,",
                         route->body == ROUTE_SPEC_BODY ? "true" : "false");
        content(out, "application/json", body);
        (void)buf_str(out, "}}");
    }
    need(schemas, call->output);
    (void)buf_printf(out, ",\"responses\":{\"%d\":{\"description\":\"done\",",
                     route->status ? route->status : 200);
    content(out, "application/json", call->output);
    if (route->stream != ROUTE_NO_STREAM)
        (void)buf_str(out, ",\"text/event-stream\":{\"schema\":{\"type\":\"string\"}}");
    (void)buf_str(out, "}},\"default\":{\"description\":\"an error\",\"content\":{"
                       "\"application/json\":{\"schema\":{\"$ref\":"
                       "\"#/components/schemas/Error\"}}}}}");
}

static void operation(struct buf *out, struct schemas *schemas, const struct route *route)
{
    (void)buf_char(out, '"');
    for (const char *c = route->method; *c; c++)
        (void)buf_char(out, (char)tolower((unsigned char)*c));
    (void)buf_printf(out, "\":{\"summary\":\"%s\"", route->summary);
    if (route->kind == ROUTE_CALL)
        call_operation(out, schemas, route);
    else
        (void)buf_str(out, ",\"responses\":{\"200\":{\"description\":\"done\"}}");
    (void)buf_char(out, '}');
}

static bool met_before(const struct route *route)
{
    for (const struct route *other = routes; other < route; other++)
        if (strcmp(other->path, route->path) == 0)
            return true;
    return false;
}

static void paths(struct buf *out, struct schemas *schemas)
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

int openapi_render(const char *version, struct buf *out)
{
    struct schemas schemas = {.count = 0};
    (void)buf_str(out, "{\"openapi\":\"3.0.3\",\"info\":{\"title\":\"Muster\",\"version\":");
    (void)buf_json_string(out, version, strlen(version));
    (void)buf_str(out, "},\"security\":[{\"bearer\":[]},{\"session\":[]}],\"paths\":{");
    paths(out, &schemas);
    (void)buf_str(out, "},\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
                       "\"scheme\":\"bearer\"},\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\","
                       "\"name\":\"muster_session\"}},\"schemas\":{");
    for (int i = 0; i < schemas.count; i++) { /* grows while it is walked */
        message_schema(out, &schemas, schemas.types[i]);
        (void)buf_char(out, ',');
    }
    (void)buf_str(out, "\"Error\":{\"type\":\"object\",\"properties\":{\"error\":{\"type\":"
                       "\"object\",\"properties\":{\"code\":{\"type\":\"string\"},\"message\":{"
                       "\"type\":\"string\"},\"field\":{\"type\":\"string\"},\"hint\":{\"type\":"
                       "\"string\"}}}}}}}}\n");
    return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
}
