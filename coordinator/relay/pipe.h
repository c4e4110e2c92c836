/* One direction of a channel: a stream of bytes at offsets, of which a bounded part is held. The
 * sender names the offset of what it sends, and the answer is how far it was accepted. The receiver
 * names the offset from which it asks, which confirms all before it. So either may repeat a call
 * that was lost, and each byte arrives once and in order.
 *
 *       confirmed ──── held, at most RELAY_PIPE_BYTES ──── accepted
 *
 * A pipe accepts RELAY_RATE_BYTES a second, and RELAY_BURST_BYTES at once after a pause.
 * Pure: time is an argument. Owned by a channel (relay.h); loop thread only.
 */
#ifndef RELAY_PIPE_H
#define RELAY_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    RELAY_PIPE_BYTES = 64 << 10, /* a power of two */
    RELAY_RATE_BYTES = 64 << 20, /* per second */
    RELAY_BURST_BYTES = 1 << 20,
    RELAY_RATE_WAIT_MS = 5, /* until the rate allows more: ask again then */
};

struct relay_pipe {
    uint64_t accepted, confirmed; /* offsets */
    bool ended;                   /* nothing follows `accepted` */
    int64_t credit_ms;            /* when `credit` was counted */
    size_t credit;                /* bytes that the rate allows now */
    uint8_t bytes[RELAY_PIPE_BYTES];
};

struct relay_bytes { /* borrowed until the next call for this pipe */
    const uint8_t *data;
    size_t size;
};

void relay_pipe_init(struct relay_pipe *pipe, int64_t now_ms);

/* Accept what is new and fits; pipe->accepted says how far. Bytes that were accepted before are
 * skipped. E_OUT_OF_RANGE: `offset` is beyond what was accepted, or bytes follow the end. */
int relay_pipe_put(struct relay_pipe *pipe, int64_t now_ms, uint64_t offset,
                   const struct relay_bytes *bytes, struct error *err);

/* Nothing follows what was accepted. Repeated calls are allowed. */
void relay_pipe_end(struct relay_pipe *pipe);

/* Confirm all before `offset`. *ret is what is held from there, in one piece at a time: the rest of
 * a ring's turn. E_OUT_OF_RANGE: `offset` was not sent yet, or was confirmed already. */
int relay_pipe_get(struct relay_pipe *pipe, uint64_t offset, struct relay_bytes *ret,
                   struct error *err);

size_t relay_pipe_held(const struct relay_pipe *pipe); /* accepted and not confirmed */
/* It accepts nothing until its receiver confirms; else only its rate may delay it. */
bool relay_pipe_is_full(const struct relay_pipe *pipe);

#endif
