#include "common/env/net_sp.h"

#include <string.h>

enum { LENGTH_BYTES = 8, WORD_BYTES = 4, LAST_WORD = 0x80, UNIX_MARK = 1 };

const uint8_t sp_greeting_rep[SP_GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

bool sp_greets_as_req(const uint8_t bytes[SP_GREETING_BYTES])
{
    static const uint8_t req[SP_GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    return memcmp(bytes, req, sizeof(req)) == 0;
}

/* 0 = it does not end. */
static size_t trace_length(const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + WORD_BYTES <= size && at < SP_TRACE_MAX_BYTES; at += WORD_BYTES)
        if (bytes[at] & LAST_WORD)
            return at + WORD_BYTES;
    return 0;
}

int64_t sp_parse(const uint8_t *bytes, size_t size, bool unix_socket, struct sp_message *ret)
{
    size_t head = LENGTH_BYTES + unix_socket;
    uint64_t length = 0;
    if (unix_socket && size > 0 && bytes[0] != UNIX_MARK)
        return E_INVALID_ARGUMENT;
    if (size < head)
        return 0;
    for (size_t i = head - LENGTH_BYTES; i < head; i++)
        length = length << 8 | bytes[i];
    if (length < WORD_BYTES || length > NET_MESSAGE_MAX_BYTES + SP_TRACE_MAX_BYTES)
        return E_INVALID_ARGUMENT;
    if (size - head < length)
        return 0;
    size_t trace = trace_length(bytes + head, (size_t)length);
    if (trace == 0 || length - trace > NET_MESSAGE_MAX_BYTES)
        return E_INVALID_ARGUMENT;
    *ret = (struct sp_message){.trace = bytes + head,
                               .trace_bytes = trace,
                               .body = bytes + head + trace,
                               .body_bytes = (size_t)length - trace};
    return (int64_t)(head + length);
}

size_t sp_head(size_t message_bytes, bool unix_socket, uint8_t ret[SP_HEAD_MAX_BYTES])
{
    uint64_t length = message_bytes;
    size_t head = LENGTH_BYTES + unix_socket;
    ret[0] = UNIX_MARK;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        ret[head - 1 - i] = (uint8_t)(length >> 8 * i);
    return head;
}
