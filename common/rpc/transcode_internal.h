/* Shared by the files of transcode_; no other includes this. */
#ifndef RPC_TRANSCODE_INTERNAL_H
#define RPC_TRANSCODE_INTERNAL_H

#include "common/rpc/transcode.h"

/* A map field in key order, or any scalar, as a tree in `arena`. NULL: the arena is full. */
struct tree *transcode_map_tree(const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, bool defaults,
                                struct arena *arena);
struct tree *transcode_value_tree(const ProtobufCFieldDescriptor *field, const void *member,
                                  bool defaults, struct arena *arena);

/* True if the output has this field. */
bool transcode_shows(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     bool defaults);

#endif
