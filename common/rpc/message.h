/* Protobuf messages in memory: packed with a maximum, unpacked by an allocator that counts, and
 * freed by the matching function. Every owned ProtobufCMessage from this folder is freed with
 * rpc_message_free. Any thread; a message belongs to one thread at a time.
 *
 * The count is needed because a few packed bytes can require much memory: every two bytes of an
 * empty repeated message cost a whole struct. The size of a frame alone is no bound.
 */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"
#include "common/base/error.h"

enum {
    RPC_PAYLOAD_MAX_BYTES = 4 << 20, /* packed request or answer message */
    RPC_UNPACKED_MAX_BYTES = 64 << 20,
};

/* Unpack `size` bytes. E_INVALID_ARGUMENT if they are not such a message or contain text that is
 * not UTF-8. E_RESOURCE_EXHAUSTED beyond RPC_PAYLOAD_MAX_BYTES packed or RPC_UNPACKED_MAX_BYTES. */
int rpc_message_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                       ProtobufCMessage **ret, struct error *err);

struct rpc_bytes {
    const void *data;
    size_t size;
};

/* Like rpc_message_unpack without its limit on the packed size, but with at most `parts_max` parts:
 * messages, texts and lists, each of which also costs time. E_RESOURCE_EXHAUSTED beyond it. */
int rpc_message_unpack_parts(const ProtobufCMessageDescriptor *type, const struct rpc_bytes *from,
                             size_t parts_max, ProtobufCMessage **ret, struct error *err);

/* Like rpc_message_unpack, for frames, which limit their packed size themselves. */
int rpc_envelope_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                        ProtobufCMessage **ret, struct error *err);

/* Append the packed message. E_OUT_OF_RANGE beyond RPC_PAYLOAD_MAX_BYTES, E_RESOURCE_EXHAUSTED if
 * the buffer is full; on failure the buffer is unchanged. */
int rpc_message_pack(const ProtobufCMessage *message, struct buf *out, struct error *err);

/* A deep copy; NULL if memory is out. */
ProtobufCMessage *rpc_message_copy(const ProtobufCMessage *message);

/* Accepts NULL. Only for messages from this folder, never for ones built on the stack. */
void rpc_message_free(void *message);

/* The allocator of rpc_message_free, for code that builds messages to be freed with it. */
void *rpc_message_alloc(size_t size);

/* A text to set in a message that is only read: generated messages lack const. Borrowed. */
static inline char *rpc_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

#endif
