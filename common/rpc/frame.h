/* The frame around every envelope on the wire (proto/rpc.proto, proto/PROTOCOL.md):
 *
 *       offset 0  "MST1"                        magic and version of the frame
 *       offset 4  u32, little endian            bytes that follow, exactly the rest of the message
 *       offset 8  RpcRequest or RpcAnswer, packed
 *
 * Everything is checked before anything is allocated. No state; any thread.
 */
#ifndef RPC_FRAME_H
#define RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/rpc/message.h"
#include "proto/rpc.pb-c.h"

enum {
    FRAME_HEADER_BYTES = 8,
    FRAME_ENVELOPE_MAX_BYTES = 64 << 10, /* method, token, key, message ...: everything except the
                                          * payload */
    FRAME_MAX_BYTES = FRAME_HEADER_BYTES + FRAME_ENVELOPE_MAX_BYTES + RPC_PAYLOAD_MAX_BYTES,
    FRAME_METHOD_MAX = 128, /* longer names are refused */
    FRAME_TOKEN_MAX = 256,
    FRAME_IDEMPOTENCY_KEY_MAX = 128,
};

/* Append a whole frame. E_OUT_OF_RANGE beyond FRAME_MAX_BYTES, E_RESOURCE_EXHAUSTED; on failure the
 * buffer is unchanged. */
int frame_pack(const ProtobufCMessage *envelope, struct buf *out, struct error *err);

/* Unpack `bytes`, which must be one envelope; free it with rpc_message_free. E_INVALID_ARGUMENT
 * (other magic, wrong length, malformed, a name beyond its limit), E_RESOURCE_EXHAUSTED (too
 * large). */
int frame_unpack_request(const void *bytes, size_t size, Muster__RpcRequest **ret,
                         struct error *err);
int frame_unpack_answer(const void *bytes, size_t size, Muster__RpcAnswer **ret, struct error *err);

#endif
