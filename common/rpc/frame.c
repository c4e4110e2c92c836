#include "common/rpc/frame.h"

#include <string.h>

static const char frame_magic[4] = {'M', 'S', 'T', '1'};

static void put_u32(char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(value >> (8 * i));
}

static uint32_t get_u32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

int frame_pack(const ProtobufCMessage *envelope, struct buf *out, struct error *err)
{
    size_t size = protobuf_c_message_get_packed_size(envelope);
    if (size > FRAME_MAX_BYTES - FRAME_HEADER_BYTES)
        return error_set(err, E_OUT_OF_RANGE, "a message of %zu bytes is above the %d allowed",
                         size, FRAME_MAX_BYTES - FRAME_HEADER_BYTES);
    size_t at = out->size;
    if (buf_fill(out, 0, FRAME_HEADER_BYTES + size))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no room for a message of %zu bytes", size);
    memcpy(out->data + at, frame_magic, sizeof(frame_magic));
    put_u32(out->data + at + 4, (uint32_t)size);
    protobuf_c_message_pack(envelope, (uint8_t *)out->data + at + FRAME_HEADER_BYTES);
    return 0;
}

static int frame_open(const void *bytes, size_t size, size_t *ret_size, struct error *err)
{
    if (size > FRAME_MAX_BYTES)
        return error_set(err, E_RESOURCE_EXHAUSTED, "a frame of %zu bytes is above the %d allowed",
                         size, FRAME_MAX_BYTES);
    if (size < FRAME_HEADER_BYTES)
        return error_set(err, E_INVALID_ARGUMENT, "%zu bytes are too few for a frame", size);
    if (memcmp(bytes, frame_magic, 3) != 0)
        return error_set(err, E_INVALID_ARGUMENT, "this is not a frame of Muster's protocol");
    if (memcmp(bytes, frame_magic, sizeof(frame_magic)) != 0)
        return error_set(err, E_INVALID_ARGUMENT,
                         "the peer speaks version '%c' of the protocol, this program version '%c'",
                         ((const char *)bytes)[3] >= ' ' && ((const char *)bytes)[3] <= '~'
                             ? ((const char *)bytes)[3]
                             : '?',
                         frame_magic[3]);
    uint32_t length = get_u32((const unsigned char *)bytes + 4);
    if (length != size - FRAME_HEADER_BYTES)
        return error_set(err, E_INVALID_ARGUMENT,
                         "the frame's length is %u bytes, but it has "
                         "%zu",
                         length, size - FRAME_HEADER_BYTES);
    *ret_size = length;
    return 0;
}

static int check_length(const char *what, size_t length, size_t max, struct error *err)
{
    if (length <= max)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "the %s of %zu bytes is above the %zu allowed", what,
                     length, max);
}

static int check_payload(size_t size, struct error *err)
{
    if (size <= RPC_PAYLOAD_MAX_BYTES)
        return 0;
    return error_set(err, E_RESOURCE_EXHAUSTED, "a message of %zu bytes is above the %d allowed",
                     size, RPC_PAYLOAD_MAX_BYTES);
}

int frame_unpack_request(const void *bytes, size_t size, Muster__RpcRequest **ret,
                         struct error *err)
{
    size_t length;
    int rc = frame_open(bytes, size, &length, err);
    if (rc)
        return rc;
    ProtobufCMessage *envelope;
    rc = rpc_envelope_unpack(&muster__rpc_request__descriptor,
                             (const char *)bytes + FRAME_HEADER_BYTES, length, &envelope, err);
    if (rc)
        return rc;
    Muster__RpcRequest *request = (Muster__RpcRequest *)envelope;
    rc = check_payload(request->payload.len, err);
    if (!rc)
        rc = check_length("method name", strlen(request->method), FRAME_METHOD_MAX, err);
    if (!rc)
        rc = check_length("token", strlen(request->token), FRAME_TOKEN_MAX, err);
    if (!rc)
        rc = check_length("idempotency key", strlen(request->idempotency_key),
                          FRAME_IDEMPOTENCY_KEY_MAX, err);
    if (rc) {
        rpc_message_free(request);
        return rc;
    }
    *ret = request;
    return 0;
}

int frame_unpack_answer(const void *bytes, size_t size, Muster__RpcAnswer **ret, struct error *err)
{
    size_t length;
    int rc = frame_open(bytes, size, &length, err);
    if (rc)
        return rc;
    ProtobufCMessage *envelope;
    rc = rpc_envelope_unpack(&muster__rpc_answer__descriptor,
                             (const char *)bytes + FRAME_HEADER_BYTES, length, &envelope, err);
    if (rc)
        return rc;
    Muster__RpcAnswer *answer = (Muster__RpcAnswer *)envelope;
    rc = check_payload(answer->payload.len, err);
    if (rc) {
        rpc_message_free(answer);
        return rc;
    }
    *ret = answer;
    return 0;
}
