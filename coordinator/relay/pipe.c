#include "coordinator/relay/pipe.h"

#include <string.h>

#include "common/base/assert.h"

enum { RING_MASK = RELAY_PIPE_BYTES - 1, MS_PER_S = 1000 };

void relay_pipe_init(struct relay_pipe *pipe, int64_t now_ms)
{
    pipe->accepted = pipe->confirmed = 0;
    pipe->ended = false;
    pipe->credit_ms = now_ms;
    pipe->credit = RELAY_BURST_BYTES;
}

size_t relay_pipe_held(const struct relay_pipe *pipe)
{
    return (size_t)(pipe->accepted - pipe->confirmed);
}

static size_t allowed(struct relay_pipe *pipe, int64_t now_ms)
{
    int64_t passed_ms = now_ms - pipe->credit_ms;
    if (passed_ms > 0) {
        uint64_t more = (uint64_t)passed_ms * (RELAY_RATE_BYTES / MS_PER_S);
        bool full = more >= RELAY_BURST_BYTES - pipe->credit;
        pipe->credit = full ? RELAY_BURST_BYTES : pipe->credit + (size_t)more;
        pipe->credit_ms = now_ms;
    }
    size_t room = RELAY_PIPE_BYTES - relay_pipe_held(pipe);
    return room < pipe->credit ? room : pipe->credit;
}

/* The bytes fit, but perhaps not before the ring's end. */
static void copy_in(struct relay_pipe *pipe, const uint8_t *data, size_t size)
{
    size_t at = (size_t)(pipe->accepted & RING_MASK), first = RELAY_PIPE_BYTES - at;
    first = first < size ? first : size;
    if (size > 0)
        memcpy(pipe->bytes + at, data, first);
    if (size > first)
        memcpy(pipe->bytes, data + first, size - first);
    pipe->accepted += size;
    pipe->credit -= size;
}

int relay_pipe_put(struct relay_pipe *pipe, int64_t now_ms, uint64_t offset,
                   const struct relay_bytes *bytes, struct error *err)
{
    if (offset > pipe->accepted)
        return error_set(err, E_OUT_OF_RANGE, "offset %llu is beyond %llu, the next one",
                         (unsigned long long)offset, (unsigned long long)pipe->accepted);
    uint64_t known = pipe->accepted - offset;
    if (known >= bytes->size)
        return 0;
    if (pipe->ended)
        return error_set(err, E_OUT_OF_RANGE, "bytes follow the end at offset %llu",
                         (unsigned long long)pipe->accepted);
    size_t fresh = bytes->size - (size_t)known, size = allowed(pipe, now_ms);
    copy_in(pipe, bytes->data + known, fresh < size ? fresh : size);
    insist(pipe->accepted - pipe->confirmed <= RELAY_PIPE_BYTES);
    return 0;
}

void relay_pipe_end(struct relay_pipe *pipe)
{
    pipe->ended = true;
}

int relay_pipe_get(struct relay_pipe *pipe, uint64_t offset, struct relay_bytes *ret,
                   struct error *err)
{
    if (offset < pipe->confirmed || offset > pipe->accepted)
        return error_set(err, E_OUT_OF_RANGE, "offset %llu is not between %llu and %llu",
                         (unsigned long long)offset, (unsigned long long)pipe->confirmed,
                         (unsigned long long)pipe->accepted);
    pipe->confirmed = offset;
    size_t at = (size_t)(offset & RING_MASK), held = (size_t)(pipe->accepted - offset);
    size_t whole = RELAY_PIPE_BYTES - at;
    *ret = (struct relay_bytes){.data = pipe->bytes + at, .size = held < whole ? held : whole};
    return 0;
}

bool relay_pipe_is_full(const struct relay_pipe *pipe)
{
    return relay_pipe_held(pipe) == RELAY_PIPE_BYTES;
}
