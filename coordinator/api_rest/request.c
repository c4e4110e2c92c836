#include "coordinator/api_rest/request.h"

#include <string.h>

#include "common/base/arena.h"
#include "common/base/parse.h"
#include "common/base/meant.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/rpc/message.h"
#include "common/rpc/spec.h"
#include "common/rpc/transcode.h"
#include "proto/client.pb-c.h"

enum {
    REQUEST_TREE_MAX_BYTES = 32 << 20,
    REQUEST_VALUES_MAX = 16384, /* a spec has room for a fifth of it; the loop reads the rest */
};

static int too_large(struct error *err)
{
    return error_set(err, E_INVALID_ARGUMENT, "the body is larger than %d KiB",
                     HTTP_BODY_MAX_BYTES >> 10);
}

static int parse_body(const struct http_request *request, struct arena *arena, struct tree **ret,
                      struct error *err)
{
    size_t size;
    const char *text = http_body(request, &size);
    if (http_body_too_large(request))
        return too_large(err);
    struct tree_input input = {
        .text = text,
        .size = size,
        .limits = {.bytes = HTTP_BODY_MAX_BYTES, .nodes = REQUEST_VALUES_MAX},
    };
    int rc = tree_parse_json(&input, arena, ret, err);
    if (rc) {
        if (err->code == E_RESOURCE_EXHAUSTED) /* beyond our limits: the client's doing */
            err->code = E_INVALID_ARGUMENT;
        return error_wrap(err, "body");
    }
    return (*ret)->kind == TREE_MAP ? 0 : tree_fail(*ret, err, "the body must be an object");
}

static int spec_message(const struct http_request *request, struct arena *arena,
                        ProtobufCMessage **ret, struct error *err)
{
    struct tree *tree;
    Muster__JobSpec *spec;
    Muster__SubmitJobRequest message = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    int rc = parse_body(request, arena, &tree, err);
    if (rc)
        return rc;
    struct tree *inner = tree_get(tree, "spec");
    if (inner && tree->count == 1)
        tree = inner;
    rc = spec_from_tree(arena, tree, &spec, err);
    if (rc)
        return rc;
    message.spec = spec;
    *ret = rpc_message_copy(&message.base);
    rpc_message_free(spec);
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
}

static int unknown_parameter(const ProtobufCMessageDescriptor *type, const char *key,
                             struct error *err)
{
    enum { NAMES_MAX = 32 };
    const char *names[NAMES_MAX + 1];
    unsigned count = 0;
    for (; count < type->n_fields && count < NAMES_MAX; count++)
        names[count] = type->fields[count].name;
    names[count] = NULL;
    error_set(err, E_INVALID_ARGUMENT, "unknown parameter '%.60s'", key);
    error_field(err, "%.60s", key);
    (void)meant_hint(err, key, names);
    return E_INVALID_ARGUMENT;
}

/* Names that people know from the command line. */
static const struct {
    const char *parameter, *field;
} aliases[] = {{"tail", "tail_lines"}};

const char *request_parameter_name(const char *field)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
        if (strcmp(aliases[i].field, field) == 0)
            return aliases[i].parameter;
    return field;
}

static const char *field_name(const char *parameter)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
        if (strcmp(aliases[i].parameter, parameter) == 0)
            return aliases[i].field;
    return parameter;
}

/* Texts are what parameters are; only booleans are not text in JSON. */
static int add_parameter(const ProtobufCMessageDescriptor *type, const struct http_pair *pair,
                         struct arena *arena, struct tree *map, struct error *err)
{
    const char *key = field_name(pair->key);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, key);
    if (!field || field->type == PROTOBUF_C_TYPE_MESSAGE ||
        field->label == PROTOBUF_C_LABEL_REPEATED)
        return unknown_parameter(type, pair->key, err);
    struct tree *value = NULL;
    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        bool flag;
        int rc = *pair->value ? parse_bool(pair->value, &flag, err) : 0;
        if (rc) {
            error_field(err, "%s", key);
            return error_wrap(err, "parameter %s", key);
        }
        value = tree_bool(arena, *pair->value ? flag : true);
    } else if (field->type == PROTOBUF_C_TYPE_UINT64) {
        int64_t number; /* larger than a signed 64-bit number: not a number of ours */
        int rc = parse_i64(pair->value, 0, INT64_MAX, &number, err);
        if (rc) {
            error_field(err, "%s", key);
            return error_wrap(err, "parameter %s", key);
        }
        value = tree_integer(arena, number);
    } else {
        value = tree_string(arena, pair->value);
    }
    return tree_map_set(arena, map, key, value)
               ? error_set(err, E_RESOURCE_EXHAUSTED, "out of memory")
               : 0;
}

/* A spec inside a message, in the form people write. */
static int widen(const ProtobufCMessageDescriptor *type, struct arena *arena, struct tree *map,
                 struct error *err)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, "spec");
    struct tree *spec = tree_get(map, "spec");
    if (!field || !spec || field->descriptor != &muster__job_spec__descriptor)
        return 0;
    return spec->kind == TREE_MAP ? spec_widen(arena, spec, err)
                                  : tree_fail(spec, err, "spec: must be an object");
}

static int set_constant(const struct route *route, struct arena *arena, struct tree *map)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
        route_call(route)->input, route->constant.field);
    const char *value = route->constant.value;
    return tree_map_set(arena, map, route->constant.field,
                        field->type == PROTOBUF_C_TYPE_BOOL
                            ? tree_bool(arena, strcmp(value, "true") == 0)
                            : tree_string(arena, value));
}

/* The body may repeat values of the address, but must not differ. */
static int check_address(const struct tree *body, const char *field, const char *value,
                         struct error *err)
{
    const struct tree *said = *field ? tree_get(body, field) : NULL;
    if (!said || (said->kind == TREE_STRING && strcmp(said->string, value) == 0))
        return 0;
    tree_fail(said, err, "%s: the address has %.60s", field, value);
    err->code = E_INVALID_ARGUMENT;
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int refuse_constant(const struct tree *body, const char *field, struct error *err)
{
    const struct tree *said = field ? tree_get(body, field) : NULL;
    if (!said)
        return 0;
    tree_fail(said, err, "%s: the address has it", field);
    err->code = E_INVALID_ARGUMENT;
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static int call_message(const struct http_request *request, const struct route_match *match,
                        struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    const struct route *route = match->route;
    const ProtobufCMessageDescriptor *type = route_call(route)->input;
    struct tree *map = tree_map(arena);
    size_t size;
    int rc = 0, count;
    (void)http_body(request, &size);
    if (route->body == ROUTE_OPTIONAL_BODY && (size > 0 || http_body_too_large(request)))
        rc = parse_body(request, arena, &map, err);
    if (!rc)
        rc = check_address(map, match->field, match->value, err);
    if (!rc)
        rc = refuse_constant(map, route->constant.field, err);
    if (!rc)
        rc = widen(type, arena, map, err);
    if (!rc && strcmp(route->call, "GetLogs") == 0) /* all ranks, unless one is asked for */
        rc = tree_map_set(arena, map, "rank", tree_integer(arena, -1));
    const struct http_pair *query = http_query(request, &count);
    for (int i = 0; !rc && i < count; i++)
        if (route->secret && strcmp(query[i].key, route->secret) == 0)
            rc = error_set(err, E_INVALID_ARGUMENT, "%s belongs in the body, not in the address",
                           route->secret);
    for (int i = 0; !rc && i < count; i++)
        rc = add_parameter(type, &query[i], arena, map, err);
    if (!rc && match->field[0])
        rc = tree_map_set(arena, map, match->field, tree_string(arena, match->value));
    if (!rc && route->constant.field)
        rc = set_constant(route, arena, map);
    if (rc)
        return err->code ? rc : error_set(err, rc, "the request is too large");
    return transcode_from_tree(map, type, NULL, ret, err);
}

int request_message(const struct http_request *request, const struct route_match *match,
                    ProtobufCMessage **ret, struct error *err)
{
    struct arena arena;
    arena_init(&arena, REQUEST_TREE_MAX_BYTES);
    int rc = match->route->body == ROUTE_SPEC_BODY ? spec_message(request, &arena, ret, err)
                                                   : call_message(request, match, &arena, ret, err);
    arena_fini(&arena);
    return rc;
}

bool request_wants_stream(const struct http_request *request)
{
    const char *accept = http_header(request, "Accept");
    return accept && strstr(accept, "text/event-stream");
}
