/* A REST body. The first byte chooses the message; what is accepted must come back the same from
 * its own JSON.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"
#include "tests/fuzz/fuzz.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &muster__submit_job_request__descriptor,
    &muster__job__descriptor,
    &muster__node__descriptor,
    &muster__node_report__descriptor,
    &muster__get_logs_request__descriptor,
    &muster__board_request__descriptor,
};

static void to_json(const ProtobufCMessage *message, struct buf *out)
{
    struct error err;
    insist(transcode_to_json(message, NULL, out, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
    struct error err = {0};
    ProtobufCMessage *message, *again;
    if (transcode_from_json((const char *)data + 1, size - 1, type, &message, &err) != 0) {
        insist(err.code != 0 && err.text[0]);
        return 0;
    }
    struct buf first = {0}, second = {0};
    to_json(message, &first);
    insist(transcode_from_json(first.data, first.size, type, &again, &err) == 0);
    to_json(again, &second);
    insist(first.size == second.size && !memcmp(first.data, second.data, first.size));
    rpc_message_free(message);
    rpc_message_free(again);
    buf_fini(&first);
    buf_fini(&second);
    return 0;
}
