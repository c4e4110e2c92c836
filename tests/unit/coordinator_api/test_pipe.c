/* One direction of a channel: bytes arrive once and in order, whatever is repeated or lost. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "coordinator/relay/pipe.h"

enum { SEEDS = 200, BYTES = 3 * RELAY_PIPE_BYTES + 1234, CHUNK_MAX = 20000, ROUNDS_MAX = 100000 };

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 2654435761u >> 13);
}

static struct relay_pipe *new_pipe(void)
{
    struct relay_pipe *pipe = calloc(1, sizeof(*pipe));
    cr_assert(pipe);
    relay_pipe_init(pipe, 0);
    return pipe;
}

static int put(struct relay_pipe *pipe, int64_t now_ms, uint64_t offset, size_t size)
{
    static uint8_t data[RELAY_BURST_BYTES];
    struct error err = {0};
    for (size_t i = 0; i < size; i++)
        data[i] = byte_at(offset + i);
    return relay_pipe_put(pipe, now_ms, offset, &(struct relay_bytes){data, size}, &err);
}

struct ends { /* what sender and receiver know: answers may be lost */
    uint64_t sent, received;
};

/* The sender repeats from where it knows; sometimes from before. */
static void send_some(struct relay_pipe *pipe, struct rng *rng, struct ends *ends, int64_t now_ms)
{
    uint64_t back = rng_below(rng, 4) == 0 ? rng_below(rng, 5000) : 0;
    uint64_t from = ends->sent > back ? ends->sent - back : 0;
    size_t size = (size_t)rng_below(rng, CHUNK_MAX);
    size = size < BYTES - from ? size : (size_t)(BYTES - from);
    cr_assert_eq(put(pipe, now_ms, from, size), 0);
    cr_assert_leq(relay_pipe_held(pipe), RELAY_PIPE_BYTES);
    if (rng_below(rng, 3))
        ends->sent = pipe->accepted;
}

static void receive_some(struct relay_pipe *pipe, struct rng *rng, struct ends *ends)
{
    struct relay_bytes got;
    struct error err = {0};
    cr_assert_eq(relay_pipe_get(pipe, ends->received, &got, &err), 0, "%s", err.text);
    size_t used = (size_t)rng_below(rng, got.size + 1); /* it may lose the rest */
    for (size_t i = 0; i < used; i++)
        cr_assert_eq(got.data[i], byte_at(ends->received + i), "byte %zu",
                     (size_t)ends->received + i);
    ends->received += used;
}

Test(pipe, bytes_arrive_once_and_in_order)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct relay_pipe *pipe = new_pipe();
        struct rng rng;
        struct ends ends = {0};
        int64_t now_ms = 0;
        rng_seed(&rng, seed);
        for (int round = 0; ends.received < BYTES; round++) {
            cr_assert_lt(round, ROUNDS_MAX, "seed %d makes no progress", (int)seed);
            if (rng_below(&rng, 2))
                send_some(pipe, &rng, &ends, now_ms);
            else
                receive_some(pipe, &rng, &ends);
            now_ms += (int64_t)rng_below(&rng, 3);
        }
        cr_assert_eq(pipe->accepted, BYTES);
        free(pipe);
    }
}

Test(pipe, holds_a_bounded_part_and_no_more)
{
    struct relay_pipe *pipe = new_pipe();
    struct relay_bytes got;
    cr_assert_eq(put(pipe, 0, 0, RELAY_PIPE_BYTES + 100), 0);
    cr_assert_eq(pipe->accepted, RELAY_PIPE_BYTES);
    cr_assert(relay_pipe_is_full(pipe));
    cr_assert_eq(put(pipe, 0, RELAY_PIPE_BYTES, 100), 0);
    cr_assert_eq(pipe->accepted, RELAY_PIPE_BYTES, "nothing fits");
    cr_assert_eq(relay_pipe_get(pipe, 60, &got, NULL), 0);
    cr_assert_eq(got.size, RELAY_PIPE_BYTES - 60);
    cr_assert_eq(put(pipe, 0, RELAY_PIPE_BYTES, 100), 0);
    cr_assert_eq(pipe->accepted, RELAY_PIPE_BYTES + 60);
    free(pipe);
}

Test(pipe, refuses_gaps_and_what_follows_the_end)
{
    struct relay_pipe *pipe = new_pipe();
    struct relay_bytes got;
    cr_assert_eq(put(pipe, 0, 1, 1), E_OUT_OF_RANGE);
    cr_assert_eq(put(pipe, 0, 0, 10), 0);
    cr_assert_eq(relay_pipe_get(pipe, 11, &got, NULL), E_OUT_OF_RANGE);
    cr_assert_eq(relay_pipe_get(pipe, 4, &got, NULL), 0);
    cr_assert_eq(relay_pipe_get(pipe, 3, &got, NULL), E_OUT_OF_RANGE, "it was confirmed");
    relay_pipe_end(pipe);
    cr_assert_eq(put(pipe, 0, 0, 10), 0, "a repeated call");
    cr_assert_eq(put(pipe, 0, 5, 6), E_OUT_OF_RANGE);
    cr_assert_eq(relay_pipe_held(pipe), 6);
    free(pipe);
}

Test(pipe, accepts_its_rate_after_a_burst)
{
    struct relay_pipe *pipe = new_pipe();
    struct relay_bytes got;
    uint64_t at_start = 0;
    for (int64_t now_ms = 0; now_ms <= 1000; now_ms++) {
        for (int i = 0; i < 100; i++) {
            cr_assert_eq(put(pipe, now_ms, pipe->accepted, 32 << 10), 0);
            cr_assert_eq(relay_pipe_get(pipe, pipe->accepted, &got, NULL), 0);
        }
        at_start = now_ms ? at_start : pipe->accepted;
    }
    cr_assert_eq(at_start, RELAY_BURST_BYTES);
    uint64_t rate = (uint64_t)(RELAY_RATE_BYTES / 1000) * 1000;
    cr_assert_eq(pipe->accepted, RELAY_BURST_BYTES + rate);
    free(pipe);
}
