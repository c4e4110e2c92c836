#include "cli/escape.h"

#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"

enum { TEXT_MAX_BYTES = 16 << 20 };

/* Bytes of the character at `c` that must not reach a terminal, 0 if it may; its number. */
static int dangerous(const unsigned char *c, unsigned *ret)
{
    *ret = *c;
    if (*c < 0x20 || *c == 0x7f)
        return *c == '\t' ? 0 : 1;
    if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) {
        *ret = c[1];
        return 2;
    }
    if (c[0] != 0xe2 || (c[1] != 0x80 && c[1] != 0x81))
        return 0;
    *ret = 0x2000u | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    bool turns = (*ret >= 0x202a && *ret <= 0x202e) || (*ret >= 0x2066 && *ret <= 0x2069) ||
                 *ret == 0x2028 || *ret == 0x2029;
    return turns ? 3 : 0;
}

char *escape_text(const char *text, bool keep_lines)
{
    struct buf out;
    unsigned number;
    bool any = false;
    for (const char *c = text; *c && !any; c++)
        any = dangerous((const unsigned char *)c, &number) && !(keep_lines && *c == '\n');
    if (!any)
        return NULL;
    buf_init(&out, TEXT_MAX_BYTES);
    for (const char *c = text; *c;) {
        int size = dangerous((const unsigned char *)c, &number);
        if (size == 0 || (keep_lines && *c == '\n'))
            (void)buf_char(&out, *c);
        else if (*c == '\n')
            (void)buf_str(&out, "\\n");
        else
            (void)buf_printf(&out, number > 0xff ? "\\u%04x" : "\\x%02x", number);
        c += size ? size : 1;
    }
    char *ret = buf_failed(&out) ? NULL : strdup(buf_cstr(&out));
    buf_fini(&out);
    return ret;
}

static bool has_lines(const char *field)
{
    return strcmp(field, "output") == 0 || strcmp(field, "last_output") == 0;
}

static void escape_at(char **text, bool keep_lines)
{
    char *escaped = *text ? escape_text(*text, keep_lines) : NULL;
    if (!escaped)
        return;
    free(*text); /* what has something to escape is no default: it was unpacked */
    *text = escaped;
}

static void escape_field(const ProtobufCFieldDescriptor *field, char *message)
{
    void *value = message + field->offset;
    bool many = field->label == PROTOBUF_C_LABEL_REPEATED;
    bool of_other = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                    *(uint32_t *)(void *)(message + field->quantifier_offset) != field->id;
    size_t count = many ? *(size_t *)(void *)(message + field->quantifier_offset) : !of_other;
    char **items = many ? *(char ***)value : (char **)value;
    for (size_t i = 0; i < count; i++)
        if (field->type == PROTOBUF_C_TYPE_STRING)
            escape_at(&items[i], has_lines(field->name));
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            escape_message(items[i]);
}

void escape_message(void *message)
{
    if (!message)
        return;
    const ProtobufCMessageDescriptor *type = ((ProtobufCMessage *)message)->descriptor;
    if (strcmp(type->name, "muster.LogLine") == 0)
        return;
    for (unsigned i = 0; i < type->n_fields; i++)
        escape_field(&type->fields[i], message);
}
