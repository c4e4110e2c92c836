/* Bytes of a stranger at the RPC port, before anything else reads them: as what a tcp or a unix
 * socket brought. However they are cut, the same messages come out, inside the bytes that came.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/env/net_sp.h"
#include "tests/fuzz/fuzz.h"

/* In memory of exactly this size, so that a read behind it is seen. */
static int64_t take(const uint8_t *data, size_t size, bool unix_socket)
{
    struct sp_message message;
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    memcpy(exact, data, size);
    int64_t taken = sp_parse(exact, size, unix_socket, &message);
    insist(taken <= (int64_t)size);
    if (taken > 0) {
        insist(message.trace >= exact && message.trace_bytes <= SP_TRACE_MAX_BYTES);
        insist(message.body == message.trace + message.trace_bytes);
        insist(message.body + message.body_bytes == exact + taken);
    }
    free(exact);
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CUTS = 64 };
    for (int unix_socket = 0; unix_socket < 2; unix_socket++) {
        size_t at = 0;
        for (int64_t taken; at < size; at += (size_t)taken) {
            taken = take(data + at, size - at, unix_socket);
            for (size_t cut = 0; cut < CUTS && at + cut < size; cut++) {
                int64_t early = take(data + at, cut, unix_socket);
                insist(early == 0 || early == taken);
            }
            if (taken <= 0)
                break;
        }
    }
    if (size >= SP_GREETING_BYTES)
        (void)sp_greets_as_req(data);
    return 0;
}
