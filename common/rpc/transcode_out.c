#include "common/rpc/transcode_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/base/tree_build.h"
#include "common/rpc/base64.h"
#include "common/rpc/fields.h"

enum { INTEGER_TEXT_MAX = 24 };

struct output {
    bool defaults;
    struct arena *arena;
};

static struct tree *write_message(const struct output *out, const ProtobufCMessage *message);

const char *transcode_enum_name(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    return found ? found->name : NULL;
}

static struct tree *write_i64(const struct output *out, int64_t value)
{
    char text[INTEGER_TEXT_MAX];
    str_printf(text, sizeof(text), "%" PRId64, value);
    return tree_string(out->arena, text);
}

static struct tree *write_u64(const struct output *out, uint64_t value)
{
    char text[INTEGER_TEXT_MAX];
    str_printf(text, sizeof(text), "%" PRIu64, value);
    return tree_string(out->arena, text);
}

static struct tree *write_bytes(const struct output *out, const ProtobufCBinaryData *bytes)
{
    char *text = arena_alloc(out->arena, BASE64_LENGTH(bytes->len) + 1);
    if (!text)
        return NULL;
    base64_encode(bytes->data, bytes->len, text);
    return tree_string(out->arena, text);
}

static struct tree *write_enum(const struct output *out, const ProtobufCEnumDescriptor *type,
                               int value)
{
    const char *name = transcode_enum_name(type, value);
    return name ? tree_string(out->arena, name) : tree_integer(out->arena, value);
}

static struct tree *write_value(const struct output *out, const ProtobufCFieldDescriptor *field,
                                const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return tree_integer(out->arena, *(const int32_t *)member);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return tree_integer(out->arena, *(const uint32_t *)member);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return write_i64(out, *(const int64_t *)member);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return write_u64(out, *(const uint64_t *)member);
    case PROTOBUF_C_TYPE_FLOAT:
        return tree_number(out->arena, (double)*(const float *)member);
    case PROTOBUF_C_TYPE_DOUBLE:
        return tree_number(out->arena, *(const double *)member);
    case PROTOBUF_C_TYPE_BOOL:
        return tree_bool(out->arena, *(const protobuf_c_boolean *)member);
    case PROTOBUF_C_TYPE_ENUM:
        return write_enum(out, field->descriptor, *(const int32_t *)member);
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(const char *const *)member;
        return tree_string(out->arena, text ? text : "");
    }
    case PROTOBUF_C_TYPE_BYTES:
        return write_bytes(out, member);
    case PROTOBUF_C_TYPE_MESSAGE:
        return write_message(out, *(const ProtobufCMessage *const *)member);
    }
    return NULL;
}

/* tree_map_set looks for the key first, which would make a large map quadratic; here every key is
 * known to be new. */
static int map_append(struct tree *map, const char *key, struct tree *value)
{
    if (!value)
        return E_RESOURCE_EXHAUSTED;
    int rc = tree_list_add(map, value);
    value->key = key;
    return rc;
}

static const char *map_key_text(const struct output *out, const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0];
    if (key->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = *(const char *const *)field_member(entry, key);
        return text ? text : "";
    }
    struct tree *node = write_value(out, key, field_member(entry, key));
    if (node && node->kind == TREE_INTEGER)
        return arena_printf(out->arena, "%" PRId64, node->integer);
    if (node && node->kind == TREE_BOOL)
        return node->boolean ? "true" : "false";
    return node ? node->string : NULL;
}

/* In key order; of equal keys, which only a foreign encoder sends, the last one counts. */
static struct tree *write_map(const struct output *out, const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field)
{
    size_t count = *field_count(message, field);
    ProtobufCMessage *const *entries =
        *(ProtobufCMessage *const *const *)field_member(message, field);
    struct strmap sorted = {0};
    struct tree *map = tree_map(out->arena);
    int rc = map ? 0 : E_RESOURCE_EXHAUSTED;
    for (size_t i = 0; !rc && i < count; i++) {
        const char *key = map_key_text(out, entries[i]);
        rc = key ? strmap_set(&sorted, key, entries[i], NULL) : E_RESOURCE_EXHAUSTED;
    }
    for (struct map_entry *e = strmap_first(&sorted); !rc && e; e = map_next(e)) {
        const ProtobufCMessage *entry = e->value;
        const ProtobufCFieldDescriptor *value = &entry->descriptor->fields[1];
        const char *key = arena_strdup(out->arena, e->name);
        rc = key ? map_append(map, key, write_value(out, value, field_member(entry, value)))
                 : E_RESOURCE_EXHAUSTED;
    }
    strmap_fini(&sorted);
    if (rc)
        return NULL;
    return map;
}

static struct tree *write_list(const struct output *out, const ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field)
{
    size_t count = *field_count(message, field);
    size_t bytes = field_value_bytes(field);
    const char *array = *(const char *const *)field_member(message, field);
    struct tree *list = tree_list(out->arena);
    for (size_t i = 0; i < count; i++)
        if (tree_list_add(list, write_value(out, field, array + i * bytes)))
            return NULL;
    return list;
}

static bool is_zero(const void *member, size_t bytes)
{
    static const char zero[16];
    insist(bytes <= sizeof(zero));
    return memcmp(member, zero, bytes) == 0;
}

/* Absent messages stay absent even with `defaults`, because there is nothing to write. So do
 * deprecated fields with value 0. */
bool transcode_shows(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     bool defaults)
{
    const void *member = field_member(message, field);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return defaults || *field_count(message, field) > 0;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const void *const *)member != NULL;
    if (field_is_optional(field))
        return defaults || field_is_present(message, field);
    if (defaults && !(field->flags & PROTOBUF_C_FIELD_FLAG_DEPRECATED))
        return true;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(const char *const *)member && **(const char *const *)member;
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)member)->len > 0;
    return !is_zero(member, field_value_bytes(field));
}

static struct tree *write_message(const struct output *out, const ProtobufCMessage *message)
{
    struct tree *map = tree_map(out->arena);
    if (!map)
        return NULL;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (!transcode_shows(message, field, out->defaults))
            continue;
        struct tree *value;
        if (field_is_map(field))
            value = write_map(out, message, field);
        else if (field->label == PROTOBUF_C_LABEL_REPEATED)
            value = write_list(out, message, field);
        else if (field_is_optional(field) && !field_is_present(message, field))
            value = tree_null(out->arena);
        else
            value = write_value(out, field, field_member(message, field));
        if (map_append(map, field->name, value))
            return NULL;
    }
    return map;
}

int transcode_to_tree(const ProtobufCMessage *message,
                      const struct transcode_output_options *options, struct arena *arena,
                      struct tree **ret, struct error *err)
{
    struct output out = {.defaults = options && options->defaults, .arena = arena};
    struct tree *tree = write_message(&out, message);
    if (!tree)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to show a %s",
                         message->descriptor->short_name);
    *ret = tree;
    return 0;
}

struct tree *transcode_map_tree(const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, bool defaults,
                                struct arena *arena)
{
    return write_map(&(struct output){defaults, arena}, message, field);
}

struct tree *transcode_value_tree(const ProtobufCFieldDescriptor *field, const void *member,
                                  bool defaults, struct arena *arena)
{
    return write_value(&(struct output){defaults, arena}, field, member);
}
