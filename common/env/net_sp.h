/* The bytes of nanomsg's "SP" over tcp and unix sockets, as NNG's REQ and REP use them: a greeting
 * of eight bytes each way, then messages. Pure: no socket is touched here.
 *
 *     greeting  00 'S' 'P' 00, protocol (16 bits), 00 00
 *     message   [01 on unix sockets] length (64 bits), trace, body; the length is that of trace and
 *               body
 *     trace     32-bit words; only the last has its highest bit set. It identifies the waiting
 *               caller and is returned unread before the answer
 *
 * All numbers big-endian. After "SP TCP Mapping" and "SP IPC Mapping" (nanomsg's rfc folder) and
 * NNG 1.5.2.
 */
#ifndef ENV_NET_SP_H
#define ENV_NET_SP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/env/net.h"

enum {
    SP_GREETING_BYTES = 8,
    SP_HEAD_MAX_BYTES = 9, /* before the trace */
    SP_TRACE_MAX_BYTES = 32,
};

/* The greeting of a REP. */
extern const uint8_t sp_greeting_rep[SP_GREETING_BYTES];
/* True for the greeting of a REQ, the only one we can serve. */
bool sp_greets_as_req(const uint8_t bytes[SP_GREETING_BYTES]);

struct sp_message { /* borrows the bytes it was parsed from */
    const uint8_t *trace;
    size_t trace_bytes;
    const uint8_t *body;
    size_t body_bytes;
};

/* Parse the message at the start of `bytes`. Returns its length, 0 if it is incomplete, or
 * E_INVALID_ARGUMENT: these bytes will never be a message (its body is larger than
 * NET_MESSAGE_MAX_BYTES, its trace does not end). */
int64_t sp_parse(const uint8_t *bytes, size_t size, bool unix_socket, struct sp_message *ret);

/* The header before a message's trace and body; returns its length. */
size_t sp_head(size_t message_bytes, bool unix_socket, uint8_t ret[SP_HEAD_MAX_BYTES]);

#endif
