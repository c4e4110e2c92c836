#include "common/rpc/fields.h"

#include <string.h>

#include "common/base/str.h"

size_t field_value_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    }
    return 0;
}

bool field_is_map(const ProtobufCFieldDescriptor *field)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_REPEATED)
        return false;
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    return entry->n_fields == 2 && strcmp(entry->fields[0].name, "key") == 0 &&
           strcmp(entry->fields[1].name, "value") == 0 && str_ends(entry->short_name, "Entry");
}

void *field_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (char *)(uintptr_t)message + field->offset;
}

size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return (size_t *)(void *)((char *)(uintptr_t)message + field->quantifier_offset);
}

bool field_is_optional(const ProtobufCFieldDescriptor *field)
{
    return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

/* protobuf-c keeps the number of the oneof's member that is set where other fields have a count. */
bool field_is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return *(const uint32_t *)(const void *)field_count(message, field) == field->id;
}

void field_set_present(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field_is_optional(field))
        *(uint32_t *)(void *)field_count(message, field) = field->id;
}

/* "workers_per_node" is "workersPerNode": an underscore is removed and the next letter is raised.
 */
static bool is_camel_of(const char *camel, const char *name)
{
    for (; *name; name++, camel++) {
        char wanted = *name;
        if (wanted == '_' && name[1]) {
            wanted = *++name;
            if (wanted >= 'a' && wanted <= 'z')
                wanted = (char)(wanted - 'a' + 'A');
        }
        if (*camel != wanted)
            return false;
    }
    return !*camel;
}

const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *type, const char *name)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (strcmp(type->fields[i].name, name) == 0 || is_camel_of(name, type->fields[i].name))
            return &type->fields[i];
    return NULL;
}

void *field_at(const ProtobufCMessage *message, const char *path,
               const ProtobufCFieldDescriptor **ret)
{
    for (;;) {
        size_t size = strcspn(path, ".");
        const ProtobufCFieldDescriptor *field = NULL;
        for (unsigned i = 0; i < message->descriptor->n_fields && !field; i++) {
            const char *name = message->descriptor->fields[i].name;
            if (strlen(name) == size && memcmp(name, path, size) == 0)
                field = &message->descriptor->fields[i];
        }
        if (!field)
            return NULL;
        void *member = field_member(message, field);
        if (!path[size]) {
            *ret = field;
            return member;
        }
        bool single =
            field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED;
        message = single ? *(ProtobufCMessage *const *)member : NULL;
        if (!message)
            return NULL;
        path += size + 1;
    }
}
