/* JSON on one line straight from a message: what the coordinator does all day. The same bytes as by
 * way of a tree, which is kept for what is rare: maps and bytes. */
#include <math.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_write.h"
#include "common/rpc/fields.h"
#include "common/rpc/transcode_internal.h"

enum { VALUE_ARENA_MAX_BYTES = 256 << 20, DIGITS_MAX = 24 };

struct writer {
    struct buf *out;
    bool defaults;
    int depth;
    struct error *err;
};

static int put_message(struct writer *writer, const ProtobufCMessage *message);

static bool is_plain(const char *text, size_t size)
{
    unsigned char odd = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        odd |= (unsigned char)(c < 0x20 || c > 0x7e || c == '"' || c == '\\');
    }
    return !odd;
}

static int put_string(struct writer *writer, const char *text)
{
    size_t size = strlen(text);
    if (is_plain(text, size)) {
        (void)buf_char(writer->out, '"');
        (void)buf_append(writer->out, text, size);
        return buf_char(writer->out, '"');
    }
    if (!utf8_valid(text, size))
        return error_set(writer->err, E_INVALID_ARGUMENT, "the text is not valid UTF-8");
    return buf_json_string(writer->out, text, size);
}

static int put_digits(struct writer *writer, uint64_t magnitude, bool negative)
{
    char text[DIGITS_MAX], *at = text + sizeof(text);
    do {
        *--at = (char)('0' + magnitude % 10);
    } while (magnitude /= 10);
    if (negative)
        *--at = '-';
    return buf_append(writer->out, at, (size_t)(text + sizeof(text) - at));
}

static int put_i64(struct writer *writer, int64_t value)
{
    return put_digits(writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

static int put_f64(struct writer *writer, double value)
{
    enum { WHOLE_MAX = 1 << 30 };
    char text[FORMAT_MAX];
    if (fabs(value) < WHOLE_MAX && value == trunc(value) && !(value == 0 && signbit(value))) {
        (void)put_i64(writer, (int64_t)value); /* as format_f64 has it, which most numbers are */
        return buf_append(writer->out, ".0", 2);
    }
    (void)format_f64(value, text);
    return isfinite(value) ? buf_str(writer->out, text) : put_string(writer, text);
}

static int put_tree(struct writer *writer, struct tree *tree)
{
    if (!tree)
        return error_set(writer->err, E_RESOURCE_EXHAUSTED, "no memory to show a message");
    return tree_write_json(tree, TREE_COMPACT, writer->out, writer->err);
}

static int put_by_tree(struct writer *writer, const ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field, const void *member)
{
    struct arena arena;
    arena_init(&arena, VALUE_ARENA_MAX_BYTES);
    int rc =
        put_tree(writer, message ? transcode_map_tree(message, field, writer->defaults, &arena)
                                 : transcode_value_tree(field, member, writer->defaults, &arena));
    arena_fini(&arena);
    return rc;
}

static int put_quoted(struct writer *writer, uint64_t magnitude, bool negative)
{
    (void)buf_char(writer->out, '"');
    (void)put_digits(writer, magnitude, negative);
    return buf_char(writer->out, '"');
}

static int put_enum(struct writer *writer, const ProtobufCEnumDescriptor *type, int value)
{
    const char *name = transcode_enum_name(type, value);
    return name ? put_string(writer, name) : put_i64(writer, value);
}

static int put_value(struct writer *writer, const ProtobufCFieldDescriptor *field,
                     const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return put_i64(writer, *(const int32_t *)member);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return put_i64(writer, *(const uint32_t *)member);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: {
        int64_t value = *(const int64_t *)member;
        return put_quoted(writer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
    }
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return put_quoted(writer, *(const uint64_t *)member, false);
    case PROTOBUF_C_TYPE_BOOL:
        return buf_str(writer->out, *(const protobuf_c_boolean *)member ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(writer, field->descriptor, *(const int32_t *)member);
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(const char *const *)member;
        return put_string(writer, text ? text : "");
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(writer, *(const ProtobufCMessage *const *)member);
    case PROTOBUF_C_TYPE_FLOAT:
        return put_f64(writer, (double)*(const float *)member);
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_f64(writer, *(const double *)member);
    case PROTOBUF_C_TYPE_BYTES:
        break;
    }
    return put_by_tree(writer, NULL, field, member);
}

static int put_list(struct writer *writer, const ProtobufCMessage *message,
                    const ProtobufCFieldDescriptor *field)
{
    size_t count = *field_count(message, field), bytes = field_value_bytes(field);
    const char *array = *(const char *const *)field_member(message, field);
    int rc = buf_char(writer->out, '[');
    for (size_t i = 0; !rc && i < count; i++) {
        if (i)
            (void)buf_char(writer->out, ',');
        rc = put_value(writer, field, array + i * bytes);
    }
    if (rc)
        return rc;
    return buf_char(writer->out, ']');
}

static int put_field(struct writer *writer, const ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field)
{
    if (field_is_map(field))
        return put_by_tree(writer, message, field, NULL);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return put_list(writer, message, field);
    if (field_is_optional(field) && !field_is_present(message, field))
        return buf_str(writer->out, "null");
    return put_value(writer, field, field_member(message, field));
}

static int put_message(struct writer *writer, const ProtobufCMessage *message)
{
    char next = '{';
    if (++writer->depth > TREE_WRITE_DEPTH_MAX)
        return error_set(writer->err, E_INVALID_ARGUMENT, "nested deeper than %d levels",
                         TREE_WRITE_DEPTH_MAX);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (!transcode_shows(message, field, writer->defaults))
            continue;
        (void)buf_char(writer->out, next);
        (void)buf_char(writer->out, '"');
        (void)buf_str(writer->out, field->name);
        (void)buf_append(writer->out, "\":", 2);
        int rc = put_field(writer, message, field);
        if (rc)
            return rc;
        next = ',';
    }
    writer->depth--;
    return buf_str(writer->out, next == '{' ? "{}" : "}");
}

static int to_json_on_lines(const ProtobufCMessage *message,
                            const struct transcode_output_options *options, struct buf *out,
                            struct error *err)
{
    struct arena arena;
    struct tree *tree = NULL;
    arena_init(&arena, VALUE_ARENA_MAX_BYTES);
    int rc = transcode_to_tree(message, options, &arena, &tree, err);
    if (!rc)
        rc = tree_write_json(tree, TREE_PRETTY, out, err);
    arena_fini(&arena);
    return rc;
}

int transcode_to_json(const ProtobufCMessage *message,
                      const struct transcode_output_options *options, struct buf *out,
                      struct error *err)
{
    if (options && options->pretty)
        return to_json_on_lines(message, options, out, err);
    struct writer writer = {.out = out, .defaults = options && options->defaults, .err = err};
    int rc = put_message(&writer, message);
    if (buf_failed(out))
        return error_set(err, E_RESOURCE_EXHAUSTED, "the document is too large to write");
    return rc;
}
