#include "common/rpc/transcode.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/meant.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/base64.h"
#include "common/rpc/fields.h"
#include "common/rpc/message.h"

enum { FIELDS_LISTED_MAX = 64, NUMBER_TEXT_MAX = 40, SHOWN_MAX = 60 };

struct input {
    bool lenient;
    struct error *err;
};

static int read_message(const struct input *in, const struct tree *node,
                        const ProtobufCMessageDescriptor *type, int depth, ProtobufCMessage **ret);

static int no_memory(const struct input *in)
{
    return error_set(in->err, E_RESOURCE_EXHAUSTED, "no memory for the message");
}

static int refuse_kind(const struct input *in, const struct tree *node, const char *what)
{
    if (node->kind == TREE_STRING)
        return tree_fail(node, in->err, "expected %s, found \"%.*s\"", what, SHOWN_MAX,
                         node->string);
    return tree_fail(node, in->err, "expected %s, found %s", what, tree_kind_name(node->kind));
}

static int out_of_range(const struct input *in, const struct tree *node, const char *range)
{
    tree_fail(node, in->err, "the number must be in %s", range);
    return error_recode(in->err, E_OUT_OF_RANGE);
}

/* ---- numbers: proto3 accepts numbers and text, whole numbers also as 1.0 and 1e3 ---- */

struct whole { /* sign and size, so that all of int64 and uint64 fit */
    bool negative;
    uint64_t size;
};

static bool whole_of_double(double value, struct whole *ret)
{
    if (!(value == floor(value)) || fabs(value) >= 18446744073709551616.0)
        return false;
    ret->negative = value < 0;
    ret->size = (uint64_t)fabs(value);
    return true;
}

static bool whole_of_text(const char *text, struct whole *ret)
{
    const char *digits = text + (*text == '-');
    size_t length = strlen(digits);
    double value;
    if (length == 0 || length >= NUMBER_TEXT_MAX)
        return false;
    if (strspn(digits, "0123456789") != length)
        return !parse_f64(text, &value, NULL) && whole_of_double(value, ret);
    char *end;
    errno = 0;
    ret->size = strtoull(digits, &end, 10);
    ret->negative = *text == '-' && ret->size != 0;
    return errno == 0;
}

static int read_whole(const struct input *in, const struct tree *node, struct whole *ret)
{
    bool good = false;
    if (node->kind == TREE_INTEGER) {
        ret->negative = node->integer < 0;
        ret->size = ret->negative ? 0 - (uint64_t)node->integer : (uint64_t)node->integer;
        good = true;
    } else if (node->kind == TREE_NUMBER) {
        good = whole_of_double(node->number, ret);
    } else if (node->kind == TREE_STRING) {
        good = whole_of_text(node->string, ret);
    }
    return good ? 0 : refuse_kind(in, node, "a whole number");
}

static int read_signed(const struct input *in, const struct tree *node, int bits, int64_t *ret)
{
    struct whole whole;
    int rc = read_whole(in, node, &whole);
    if (rc)
        return rc;
    uint64_t limit = (uint64_t)1 << (bits - 1);
    if (whole.size > limit - !whole.negative)
        return out_of_range(in, node,
                            bits == 32 ? "-2147483648..2147483647"
                                       : "-9223372036854775808..9223372036854775807");
    *ret = (int64_t)(whole.negative ? 0 - whole.size : whole.size);
    return 0;
}

static int read_unsigned(const struct input *in, const struct tree *node, int bits, uint64_t *ret)
{
    struct whole whole;
    int rc = read_whole(in, node, &whole);
    if (rc)
        return rc;
    if (whole.negative || (bits == 32 && whole.size > UINT32_MAX))
        return out_of_range(in, node, bits == 32 ? "0..4294967295" : "0..18446744073709551615");
    *ret = whole.size;
    return 0;
}

static int read_double(const struct input *in, const struct tree *node, double *ret)
{
    if (node->kind == TREE_INTEGER) {
        *ret = (double)node->integer;
        return 0;
    }
    if (node->kind == TREE_NUMBER) {
        *ret = node->number;
        return 0;
    }
    if (node->kind != TREE_STRING)
        return refuse_kind(in, node, "a number");
    if (strcmp(node->string, "NaN") == 0)
        *ret = (double)NAN;
    else if (strcmp(node->string, "Infinity") == 0)
        *ret = (double)INFINITY;
    else if (strcmp(node->string, "-Infinity") == 0)
        *ret = -(double)INFINITY;
    else if (parse_f64(node->string, ret, NULL))
        return refuse_kind(in, node, "a number");
    return 0;
}

static int read_float(const struct input *in, const struct tree *node, float *ret)
{
    double value;
    int rc = read_double(in, node, &value);
    if (rc)
        return rc;
    if (isfinite(value) && fabs(value) > 3.4028235677973366e38)
        return out_of_range(in, node, "the range of a 32-bit float");
    *ret = (float)value;
    return 0;
}

/* ---- texts, bytes, enums ---- */

static const char *text_of(const struct input *in, const struct tree *node, char buffer[FORMAT_MAX])
{
    if (node->kind == TREE_STRING)
        return node->string;
    if (!in->lenient)
        return NULL;
    if (node->kind == TREE_BOOL)
        return node->boolean ? "true" : "false";
    if (node->kind == TREE_NUMBER)
        return format_f64(node->number, buffer);
    if (node->kind != TREE_INTEGER)
        return NULL;
    str_printf(buffer, FORMAT_MAX, "%" PRId64, node->integer);
    return buffer;
}

static int read_string(const struct input *in, const struct tree *node, char **ret)
{
    char buffer[FORMAT_MAX];
    const char *text = text_of(in, node, buffer);
    if (!text)
        return refuse_kind(in, node, "text");
    size_t size = strlen(text) + 1;
    char *copy = rpc_message_alloc(size);
    if (!copy)
        return no_memory(in);
    memcpy(copy, text, size);
    *ret = copy;
    return 0;
}

static int read_bytes(const struct input *in, const struct tree *node, ProtobufCBinaryData *ret)
{
    if (node->kind != TREE_STRING)
        return refuse_kind(in, node, "bytes in base64");
    uint8_t *data = rpc_message_alloc(strlen(node->string) / 4 * 3 + 3);
    if (!data)
        return no_memory(in);
    if (base64_decode(node->string, data, &ret->len)) {
        free(data);
        return refuse_kind(in, node, "bytes in base64");
    }
    ret->data = data;
    return 0;
}

static int enum_unknown(const struct input *in, const struct tree *node,
                        const ProtobufCEnumDescriptor *type)
{
    const char *names[FIELDS_LISTED_MAX + 1] = {NULL};
    char list[256] = "";
    for (unsigned i = 0; i < type->n_values && i < FIELDS_LISTED_MAX; i++) {
        names[i] = type->values[i].name;
        size_t used = strlen(list);
        str_printf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    tree_fail(node, in->err, "\"%.*s\" is none of %s", SHOWN_MAX, node->string, list);
    (void)meant_hint(in->err, node->string, names);
    return E_INVALID_ARGUMENT;
}

static int read_enum(const struct input *in, const struct tree *node,
                     const ProtobufCEnumDescriptor *type, int32_t *ret)
{
    int64_t number;
    if (node->kind == TREE_INTEGER || node->kind == TREE_NUMBER) {
        int rc = read_signed(in, node, 32, &number);
        if (!rc)
            *ret = (int32_t)number;
        return rc;
    }
    if (node->kind != TREE_STRING)
        return refuse_kind(in, node, "a name");
    for (unsigned i = 0; i < type->n_values; i++) {
        if (strcmp(type->values[i].name, node->string) == 0) {
            *ret = type->values[i].value;
            return 0;
        }
    }
    return enum_unknown(in, node, type);
}

static int read_bool(const struct input *in, const struct tree *node, protobuf_c_boolean *ret)
{
    if (node->kind != TREE_BOOL)
        return refuse_kind(in, node, "true or false");
    *ret = node->boolean;
    return 0;
}

/* ---- fields ---- */

/* One value into `member`; zeroed or at its default before. */
static int read_value(const struct input *in, const struct tree *node,
                      const ProtobufCFieldDescriptor *field, int depth, void *member)
{
    int64_t i = 0;
    uint64_t u = 0;
    int rc = 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        if ((rc = read_signed(in, node, 32, &i)) == 0)
            *(int32_t *)member = (int32_t)i;
        return rc;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return read_signed(in, node, 64, member);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        if ((rc = read_unsigned(in, node, 32, &u)) == 0)
            *(uint32_t *)member = (uint32_t)u;
        return rc;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_unsigned(in, node, 64, member);
    case PROTOBUF_C_TYPE_FLOAT:
        return read_float(in, node, member);
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(in, node, member);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(in, node, member);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(in, node, field->descriptor, member);
    case PROTOBUF_C_TYPE_STRING:
        return read_string(in, node, member);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(in, node, member);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(in, node, field->descriptor, depth + 1, member);
    }
    return refuse_kind(in, node, "a type this program knows");
}

/* Room for `count` values, all zero; the message frees them whatever happens next. */
static void *array_new(void *member, size_t count, size_t value_bytes)
{
    void *array = rpc_message_alloc(count * value_bytes);
    if (array)
        memset(array, 0, count * value_bytes);
    *(void **)member = array;
    return array;
}

static int read_list(const struct input *in, const struct tree *node,
                     const ProtobufCFieldDescriptor *field, int depth, ProtobufCMessage *message)
{
    size_t bytes = field_value_bytes(field);
    bool single = in->lenient && field->type == PROTOBUF_C_TYPE_STRING && node->kind != TREE_MAP &&
                  node->kind != TREE_LIST;
    if (node->kind != TREE_LIST && !single)
        return refuse_kind(in, node, "a list");
    size_t *count = field_count(message, field);
    char *array = array_new(field_member(message, field), single ? 1 : node->count, bytes);
    if (!array)
        return no_memory(in);
    const struct tree *item;
    int rc = 0;
    if (single) {
        rc = read_value(in, node, field, depth, array);
        *count = rc ? 0 : 1;
        return rc;
    }
    tree_each(item, node) {
        rc = read_value(in, item, field, depth, array + *count * bytes);
        if (rc)
            return rc;
        ++*count;
    }
    return 0;
}

/* A key is text in JSON whatever its type, so it is read as if it were a value of text. */
static int read_map_entry(const struct input *in, const struct tree *item,
                          const ProtobufCMessageDescriptor *type, int depth,
                          ProtobufCMessage *entry)
{
    struct tree key = *item;
    key.kind = TREE_STRING;
    key.string = item->key;
    const ProtobufCFieldDescriptor *key_field = &type->fields[0];
    if (key_field->type == PROTOBUF_C_TYPE_BOOL &&
        (!strcmp(item->key, "true") || !strcmp(item->key, "false"))) {
        key.kind = TREE_BOOL;
        key.boolean = item->key[0] == 't';
    }
    int rc = read_value(in, &key, key_field, depth, field_member(entry, key_field));
    if (!rc && item->kind == TREE_NULL)
        rc = tree_fail(item, in->err, "\"%.*s\" has no value", SHOWN_MAX, item->key);
    if (!rc)
        rc = read_value(in, item, &type->fields[1], depth, field_member(entry, &type->fields[1]));
    return rc;
}

static ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = rpc_message_alloc(type->sizeof_message);
    if (message)
        protobuf_c_message_init(type, message);
    return message;
}

static int read_map(const struct input *in, const struct tree *node,
                    const ProtobufCFieldDescriptor *field, int depth, ProtobufCMessage *message)
{
    if (node->kind != TREE_MAP)
        return refuse_kind(in, node, "a map");
    const ProtobufCMessageDescriptor *type = field->descriptor;
    size_t *count = field_count(message, field);
    ProtobufCMessage **array =
        array_new(field_member(message, field), node->count, field_value_bytes(field));
    if (!array)
        return no_memory(in);
    const struct tree *item;
    tree_each(item, node) {
        ProtobufCMessage *entry = message_new(type);
        if (!entry)
            return no_memory(in);
        array[(*count)++] = entry;
        int rc = read_map_entry(in, item, type, depth + 1, entry);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_field(const struct input *in, const struct tree *node,
                      const ProtobufCFieldDescriptor *field, int depth, ProtobufCMessage *message)
{
    if (node->kind == TREE_NULL)
        return 0;
    if (field_is_map(field))
        return read_map(in, node, field, depth, message);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_list(in, node, field, depth, message);
    int rc = read_value(in, node, field, depth, field_member(message, field));
    if (!rc)
        field_set_present(message, field);
    return rc;
}

static int field_unknown(const struct input *in, const struct tree *node,
                         const ProtobufCMessageDescriptor *type)
{
    const char *names[FIELDS_LISTED_MAX + 1] = {NULL};
    char list[sizeof(((struct error *)NULL)->hint) - 16] = "";
    for (unsigned i = 0; i < type->n_fields && i < FIELDS_LISTED_MAX; i++) {
        names[i] = type->fields[i].name;
        size_t used = strlen(list);
        str_printf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    tree_fail(node, in->err, "unknown key \"%.*s\"", SHOWN_MAX, node->key);
    if (!meant_hint(in->err, node->key, names) && list[0])
        error_hint(in->err, "known: %s", list);
    return E_INVALID_ARGUMENT;
}

/* The schema name and its camel case may both stand there; a tree has each spelling once. */
static bool given_before(const struct tree *map, const struct tree *item,
                         const ProtobufCMessageDescriptor *type)
{
    const ProtobufCFieldDescriptor *field = field_find(type, item->key);
    const struct tree *earlier;
    tree_each(earlier, map) {
        if (earlier == item)
            return false;
        if (field_find(type, earlier->key) == field)
            return true;
    }
    return false;
}

static int read_message(const struct input *in, const struct tree *node,
                        const ProtobufCMessageDescriptor *type, int depth, ProtobufCMessage **ret)
{
    if (node->kind != TREE_MAP)
        return refuse_kind(in, node, "a map");
    if (depth > TRANSCODE_DEPTH_MAX)
        return tree_fail(node, in->err, "nested deeper than %d", TRANSCODE_DEPTH_MAX);
    ProtobufCMessage *message = message_new(type);
    if (!message)
        return no_memory(in);
    const struct tree *item;
    int rc = 0;
    tree_each(item, node) {
        const ProtobufCFieldDescriptor *field = field_find(type, item->key);
        if (!field)
            rc = field_unknown(in, item, type);
        else if (given_before(node, item, type))
            rc = tree_fail(item, in->err, "\"%s\" is given twice", field->name);
        else
            rc = read_field(in, item, field, depth, message);
        if (rc) {
            rpc_message_free(message);
            return rc;
        }
    }
    *ret = message;
    return 0;
}

int transcode_from_tree(const struct tree *tree, const ProtobufCMessageDescriptor *type,
                        const struct transcode_input_options *options, ProtobufCMessage **ret,
                        struct error *err)
{
    struct input in = {.lenient = options && options->lenient, .err = err};
    return read_message(&in, tree, type, 0, ret);
}

int transcode_from_json(const char *text, size_t size, const ProtobufCMessageDescriptor *type,
                        ProtobufCMessage **ret, struct error *err)
{
    struct arena arena;
    arena_init(&arena, ARENA_DEFAULT_MAX_BYTES);
    struct tree *tree;
    struct tree_input input = {.text = text, .size = size};
    int rc = tree_parse_json(&input, &arena, &tree, err);
    if (!rc)
        rc = transcode_from_tree(tree, type, NULL, ret, err);
    arena_fini(&arena);
    return rc;
}
