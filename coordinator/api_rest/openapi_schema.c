#include "coordinator/api_rest/openapi_schema.h"

#include <string.h>

#include "common/rpc/fields.h"

#define NAME_PATTERN "^[a-z0-9][a-z0-9.-]{0,62}$"

/* Rules for requests beyond the types of their fields, and additional fields of answers. */
static const struct rule {
    const char *type, *field;
    bool required;
    const char *more; /* members of the schema, after a comma; or a whole schema from '{' */
} rules[] = {
    {"muster.JobSpec", "name", false, "\"pattern\":\"" NAME_PATTERN "\""},
    {"muster.JobSpec", "command", true, "\"minItems\":1"},
    {"muster.ListJobsRequest", "state", false,
     "\"enum\":[\"queued\",\"starting\",\"running\",\"reforming\",\"restarting\",\"preempting\","
     "\"stopping\",\"succeeded\",\"failed\",\"cancelled\",\"active\",\"stalled\"]"},
    {"muster.ListJobsRequest", "cursor", false, "\"pattern\":\"^([1-9][0-9]{0,17})?$\""},
    {"muster.ScaleJobRequest", "min", true, "\"minimum\":1,\"maximum\":10000"},
    {"muster.ScaleJobRequest", "max", false, "\"maximum\":10000"},
    {"muster.GetLogsRequest", "rank", false, "\"minimum\":-1"},
    {"muster.SetTenantRequest", "name", true, "\"pattern\":\"" NAME_PATTERN "\""},
    {"muster.SetTenantRequest", "weight", false, "\"maximum\":1000"},
    {"muster.SetTenantRequest", "guaranteed_slots", false, "\"maximum\":10000000"},
    {"muster.SetTenantRequest", "limit_slots", false, "\"maximum\":10000000"},
    {"muster.CreateTokenRequest", "name", true, "\"pattern\":\"" NAME_PATTERN "\""},
    {"muster.CreateTokenRequest", "role", true,
     "\"enum\":[\"admin\",\"operator\",\"member\",\"viewer\",\"agent\"]"},
    {"muster.CreateTokenRequest", "expires", false,
     "\"pattern\":\"^([1-9][0-9]{0,2}[smhd])?$\",\"example\":\"30d\""},
    {"muster.CreateTokenRequest", "uses", false, "\"maximum\":1000000"},
    {"muster.BackupRequest", "path", true, "\"pattern\":\"^/[^\\\\u0000]*$\",\"maxLength\":255"},
    {"muster.ReplayRequest", "cursor", false, "\"pattern\":\"^[a-z]?[0-9a-z.-]*$\""},
    {"muster.Job", "loss", false, "{not finite"},
    {"muster.Job", "tokens_per_second", false, "{not finite"},
    {"muster.MetricPoint", "value", false, "{not finite"},
};

static const struct rule *rule_of(const ProtobufCMessageDescriptor *type,
                                  const ProtobufCFieldDescriptor *field)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (strcmp(rules[i].type, type->name) == 0 && strcmp(rules[i].field, field->name) == 0)
            return &rules[i];
    return NULL;
}

bool openapi_is_required(const ProtobufCMessageDescriptor *type,
                         const ProtobufCFieldDescriptor *field)
{
    const struct rule *rule = rule_of(type, field);
    return rule && rule->required;
}

void openapi_schema_name(const struct openapi_schema *schema, struct buf *out)
{
    (void)buf_printf(out, "%s%s", schema->type->name, schema->input ? ".Input" : "");
}

void openapi_schema_ref(struct openapi_schemas *schemas, const struct openapi_schema *schema,
                        struct buf *out)
{
    int at = 0;
    while (at < schemas->count &&
           (schemas->list[at].type != schema->type || schemas->list[at].input != schema->input))
        at++;
    if (at == schemas->count && at < OPENAPI_SCHEMAS_MAX)
        schemas->list[schemas->count++] = *schema;
    (void)buf_str(out, "{\"$ref\":\"#/components/schemas/");
    openapi_schema_name(schema, out);
    (void)buf_str(out, "\"}");
}

static void put_enum(const ProtobufCEnumDescriptor *type, struct buf *out)
{
    (void)buf_str(out, "{\"type\":\"string\",\"enum\":[");
    for (unsigned i = 0; i < type->n_values; i++)
        (void)buf_printf(out, "%s\"%s\"", i ? "," : "", type->values[i].name);
    (void)buf_char(out, ']');
}

/* Without its last brace. 64-bit integers are texts in JSON, and numbers in addresses. */
static void open_scalar(const ProtobufCFieldDescriptor *field, bool in_address, struct buf *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        (void)buf_str(out, "{\"type\":\"integer\",\"format\":\"int32\"");
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        (void)buf_str(out, "{\"type\":\"integer\",\"format\":\"int64\"");
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        (void)buf_str(out, in_address ? "{\"type\":\"integer\",\"format\":\"int64\""
                                      : "{\"type\":\"string\",\"format\":\"int64\","
                                        "\"pattern\":\"^-?[0-9]{1,19}$\"");
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        (void)buf_str(out, in_address ? "{\"type\":\"integer\",\"format\":\"uint64\","
                                        "\"minimum\":0,\"maximum\":9223372036854775807"
                                      : "{\"type\":\"string\",\"format\":\"uint64\","
                                        "\"pattern\":\"^[0-9]{1,20}$\"");
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
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(field->descriptor, out);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        (void)buf_char(out, '{');
        return;
    }
}

static bool is_map_entry(const ProtobufCMessageDescriptor *type)
{
    size_t size = strlen(type->short_name);
    return size > 5 && strcmp(type->short_name + size - 5, "Entry") == 0;
}

static bool is_unsigned_32(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_FIXED32;
}

/* null in a request means that it is not there. */
static bool takes_null(const struct openapi_schema *of, const ProtobufCFieldDescriptor *field)
{
    return of->input && !openapi_is_required(of->type, field) && !is_map_entry(of->type);
}

/* The rule's members belong to the list of a repeated field, else to the value. */
static void scalar(const struct openapi_schema *of, const ProtobufCFieldDescriptor *field,
                   bool in_address, struct buf *out)
{
    const struct rule *rule = rule_of(of->type, field);
    bool bare = field->label != PROTOBUF_C_LABEL_REPEATED;
    bool nullable =
        of->input ? bare && !in_address && takes_null(of, field) : field_is_optional(field);
    if (rule && rule->more[0] == '{') {
        (void)buf_printf(out,
                         "{\"oneOf\":[{\"type\":\"number\",\"format\":\"double\"},{\"type\":"
                         "\"string\",\"enum\":[\"NaN\",\"Infinity\",\"-Infinity\"]}]%s}",
                         field_is_optional(field) ? ",\"nullable\":true" : "");
        return;
    }
    open_scalar(field, in_address, out);
    if (rule && bare)
        (void)buf_printf(out, ",%s", rule->more);
    if (is_unsigned_32(field) && !(rule && strstr(rule->more, "minimum")))
        (void)buf_str(out, ",\"minimum\":0");
    if (of->input && is_unsigned_32(field) && !(rule && strstr(rule->more, "maximum")))
        (void)buf_str(out, ",\"maximum\":4294967295");
    if (of->input && field->type == PROTOBUF_C_TYPE_STRING && !rule)
        (void)buf_str(out, ",\"pattern\":\"^[^\\\\u0000]*$\"");
    (void)buf_str(out, nullable ? ",\"nullable\":true}" : "}");
}

static void value_schema(struct openapi_schemas *schemas, const struct openapi_schema *of,
                         const ProtobufCFieldDescriptor *field, struct buf *out)
{
    struct openapi_schema inner = {field->descriptor, of->input};
    bool bare = field->label != PROTOBUF_C_LABEL_REPEATED;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        scalar(of, field, false, out);
    } else if (bare && takes_null(of, field)) {
        (void)buf_str(out, "{\"nullable\":true,\"allOf\":[");
        openapi_schema_ref(schemas, &inner, out);
        (void)buf_str(out, "]}");
    } else {
        openapi_schema_ref(schemas, &inner, out);
    }
}

static void field_schema(struct openapi_schemas *schemas, const struct openapi_schema *of,
                         const ProtobufCFieldDescriptor *field, struct buf *out)
{
    const struct rule *rule = rule_of(of->type, field);
    if (field_is_map(field)) {
        const struct openapi_schema entry = {field->descriptor, of->input};
        (void)buf_printf(out, "{\"type\":\"object\",%s\"additionalProperties\":",
                         takes_null(of, field) ? "\"nullable\":true," : "");
        value_schema(schemas, &entry,
                     protobuf_c_message_descriptor_get_field_by_name(entry.type, "value"), out);
        (void)buf_char(out, '}');
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        (void)buf_printf(out, "{\"type\":\"array\",%s\"items\":",
                         takes_null(of, field) ? "\"nullable\":true," : "");
        value_schema(schemas, of, field, out);
        (void)buf_printf(out, rule && of->input ? ",%s}" : "}", rule ? rule->more : "");
    } else {
        value_schema(schemas, of, field, out);
    }
}

/* In answers everything is written but messages that are not there. */
static bool is_required(const struct openapi_schema *of, const ProtobufCFieldDescriptor *field)
{
    if (of->input)
        return openapi_is_required(of->type, field);
    return field->label == PROTOBUF_C_LABEL_REPEATED ||
           (field->type != PROTOBUF_C_TYPE_MESSAGE &&
            !(field->flags & PROTOBUF_C_FIELD_FLAG_DEPRECATED));
}

static bool is_left_out(const ProtobufCFieldDescriptor *field, const char *const *without)
{
    for (; without && *without; without++)
        if (strcmp(field->name, *without) == 0)
            return true;
    return false;
}

static void object(struct openapi_schemas *schemas, const struct openapi_schema *of,
                   const char *const *without, struct buf *out)
{
    int written = 0, required = 0;
    (void)buf_str(out, "{\"type\":\"object\",\"properties\":{");
    for (unsigned i = 0; i < of->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &of->type->fields[i];
        if (is_left_out(field, without))
            continue;
        (void)buf_printf(out, "%s\"%s\":", written++ ? "," : "", field->name);
        field_schema(schemas, of, field, out);
    }
    (void)buf_char(out, '}');
    for (unsigned i = 0; i < of->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &of->type->fields[i];
        if (!is_left_out(field, without) && is_required(of, field))
            (void)buf_printf(out, "%s\"%s\"", required++ ? "," : ",\"required\":[", field->name);
    }
    (void)buf_str(out, required ? "]" : "");
    (void)buf_str(out, of->input ? ",\"additionalProperties\":false}" : "}");
}

void openapi_schema_put(struct openapi_schemas *schemas, int which, struct buf *out)
{
    struct openapi_schema schema = schemas->list[which];
    (void)buf_char(out, '"');
    openapi_schema_name(&schema, out);
    (void)buf_str(out, "\":");
    object(schemas, &schema, NULL, out);
}

void openapi_body_put(struct openapi_schemas *schemas, const ProtobufCMessageDescriptor *type,
                      const char *const *without, struct buf *out)
{
    object(schemas, &(struct openapi_schema){type, true}, without, out);
}

void openapi_parameter_schema(const ProtobufCMessageDescriptor *type,
                              const ProtobufCFieldDescriptor *field, struct buf *out)
{
    scalar(&(struct openapi_schema){type, true}, field, true, out);
}
