/* Bytes from the RPC port: as a request and as an answer, and the request's payload as messages. */
#include <stdlib.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "common/rpc/message.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"
#include "tests/fuzz/fuzz.h"

static void unpack_as(const ProtobufCMessageDescriptor *type, const ProtobufCBinaryData *payload)
{
    ProtobufCMessage *message;
    struct error err;
    if (rpc_message_unpack(type, payload->data, payload->len, &message, &err) == 0)
        rpc_message_free(message);
}

static void open_frame(const void *data, size_t size)
{
    struct error err;
    Muster__RpcRequest *request;
    Muster__RpcAnswer *answer;
    if (frame_unpack_request(data, size, &request, &err) == 0) {
        unpack_as(&muster__submit_job_request__descriptor, &request->payload);
        unpack_as(&muster__node_report__descriptor, &request->payload);
        rpc_message_free(request);
    }
    if (frame_unpack_answer(data, size, &answer, &err) == 0) {
        unpack_as(&muster__node_poll_answer__descriptor, &answer->payload);
        rpc_message_free(answer);
    }
}

/* Once as they are, once behind a header that fits them: else hardly any mutation would get past
 * the length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_frame(data, size);
    if (size < FRAME_HEADER_BYTES)
        return 0;
    uint8_t *mended = malloc(size);
    if (!mended)
        return 0;
    memcpy(mended, data, size);
    memcpy(mended, "MST1", 4);
    for (int i = 0; i < 4; i++)
        mended[4 + i] = (uint8_t)((size - FRAME_HEADER_BYTES) >> (8 * i));
    open_frame(mended, size);
    free(mended);
    return 0;
}
