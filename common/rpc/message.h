/* Protobuf messages in memory: packed with a maximum, unpacked by an allocator that counts, freed
 * by the one function that fits. Everything this folder hands out as an owned ProtobufCMessage is
 * freed with rpc_message_free. Any thread; a message belongs to one thread at a time.
 *
 * Why the count: a few packed bytes can ask for much memory (every two bytes of an empty repeated
 * message cost a whole struct), so the size of a frame alone bounds nothing.
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

/* Unpack `size` bytes. E_INVALID_ARGUMENT if they are no such message or hold text that is not
 * UTF-8, E_RESOURCE_EXHAUSTED beyond RPC_PAYLOAD_MAX_BYTES packed or RPC_UNPACKED_MAX_BYTES. */
int rpc_message_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                       ProtobufCMessage **ret, struct error *err);

struct rpc_bytes {
    const void *data;
    size_t size;
};

/* As rpc_message_unpack but for the packed size, and with at most so many parts: messages, texts
 * and lists, each of which costs time too. E_RESOURCE_EXHAUSTED beyond it. */
int rpc_message_unpack_parts(const ProtobufCMessageDescriptor *type, const struct rpc_bytes *from,
                             size_t parts_max, ProtobufCMessage **ret, struct error *err);

/* As rpc_message_unpack, for frames, which bound their packed size themselves. */
int rpc_envelope_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                        ProtobufCMessage **ret, struct error *err);

/* Append the packed message. E_OUT_OF_RANGE beyond RPC_PAYLOAD_MAX_BYTES, E_RESOURCE_EXHAUSTED if
 * the buffer is full; the buffer is then as before. */
int rpc_message_pack(const ProtobufCMessage *message, struct buf *out, struct error *err);

/* A deep copy; NULL without memory. */
ProtobufCMessage *rpc_message_copy(const ProtobufCMessage *message);

/* Accepts NULL. Only for messages from this folder, never for ones built on the stack. */
void rpc_message_free(void *message);

/* What rpc_message_free uses; for code that builds messages which others will free with it. */
void *rpc_message_alloc(size_t size);

#endif
