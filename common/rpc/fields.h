/* Access to the fields of protobuf-c's message structs: address and size of a value. No state; any
 * thread. */
#ifndef RPC_FIELDS_H
#define RPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

/* Bytes of one value in a struct or in a repeated field's array. */
size_t field_value_bytes(const ProtobufCFieldDescriptor *field);

/* True for a map, which protobuf-c represents as a repeated message of `key` and `value` named
 * ...Entry. */
bool field_is_map(const ProtobufCFieldDescriptor *field);

/* The member, and a repeated field's count. */
void *field_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* True for a scalar that may be absent: the only member of a oneof. */
bool field_is_optional(const ProtobufCFieldDescriptor *field);

/* For an optional field: true if it is present; and mark it as present. Other fields have no such
 * mark. */
bool field_is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
void field_set_present(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* By schema name or its lowerCamelCase form; NULL if unknown. */
const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *type,
                                           const char *name);

/* The member at a dotted path of schema names ("restart.max") and its field. NULL if the schema has
 * no such path, or if a message on the path is absent. */
void *field_at(const ProtobufCMessage *message, const char *path,
               const ProtobufCFieldDescriptor **ret);

#endif
