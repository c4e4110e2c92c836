/* What transcoding must know of protobuf-c's message structs: where a field's value lies and how
 * large it is. No state; any thread.
 */
#ifndef RPC_FIELDS_H
#define RPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

/* Bytes of one value in a struct or in a repeated field's array. */
size_t field_value_bytes(const ProtobufCFieldDescriptor *field);

/* A map: protobuf-c shows it as a repeated message of `key` and `value` named ...Entry. */
bool field_is_map(const ProtobufCFieldDescriptor *field);

/* The member, and a repeated field's count. */
void *field_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* A scalar that may be absent: the one member of a oneof. */
bool field_is_optional(const ProtobufCFieldDescriptor *field);

/* Of an optional field whether it is there, and the mark that it is; others have no such mark. */
bool field_is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
void field_set_present(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* By schema name or its lowerCamelCase form; NULL if unknown. */
const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *type,
                                           const char *name);

#endif
