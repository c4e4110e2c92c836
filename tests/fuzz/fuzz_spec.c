/* A job spec from a user. What is accepted must survive the wire unchanged. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/rpc/message.h"
#include "common/rpc/spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    Muster__JobSpec *spec;
    if (spec_parse("spec", (const char *)data, size, &spec, &err) != 0) {
        insist(err.code != 0 && err.text[0]);
        return 0;
    }
    struct buf wire = {0}, again = {0};
    ProtobufCMessage *copy;
    insist(rpc_message_pack(&spec->base, &wire, &err) == 0);
    insist(rpc_message_unpack(spec->base.descriptor, wire.data, wire.size, &copy, &err) == 0);
    insist(rpc_message_pack(copy, &again, &err) == 0);
    insist(wire.size == again.size && !memcmp(wire.data, again.data, wire.size));
    rpc_message_free(spec);
    rpc_message_free(copy);
    buf_fini(&wire);
    buf_fini(&again);
    return 0;
}
