#include <criterion/criterion.h>
#include <string.h>

#include "common/env/net_sp.h"

static const uint8_t message[] = {0, 0,    0, 0, 0, 0,   0,   13,  0,   0,  0,
                                  7, 0x80, 0, 0, 9, 'h', 'e', 'l', 'l', 'o'};

Test(net_sp, a_message_is_taken_when_its_last_byte_is_there)
{
    struct sp_message got;
    for (size_t size = 0; size < sizeof(message); size++)
        cr_assert_eq(sp_parse(message, size, false, &got), 0, "%zu bytes", size);
    cr_assert_eq(sp_parse(message, sizeof(message), false, &got), (int64_t)sizeof(message));
    cr_assert_eq(got.trace, message + 8);
    cr_assert_eq(got.trace_bytes, 8);
    cr_assert_eq(got.body_bytes, 5);
    cr_assert_eq(memcmp(got.body, "hello", 5), 0);
}

Test(net_sp, what_follows_is_left)
{
    uint8_t two[2 * sizeof(message)];
    struct sp_message got;
    memcpy(two, message, sizeof(message));
    memcpy(two + sizeof(message), message, sizeof(message));
    cr_assert_eq(sp_parse(two, sizeof(two), false, &got), (int64_t)sizeof(message));
}

Test(net_sp, a_unix_socket_has_a_mark_in_front)
{
    uint8_t marked[1 + sizeof(message)] = {1};
    struct sp_message got;
    memcpy(marked + 1, message, sizeof(message));
    cr_assert_eq(sp_parse(marked, sizeof(message), true, &got), 0);
    cr_assert_eq(sp_parse(marked, sizeof(marked), true, &got), (int64_t)sizeof(marked));
    cr_assert_eq(got.body_bytes, 5);
    marked[0] = 2;
    cr_assert_eq(sp_parse(marked, 1, true, &got), E_INVALID_ARGUMENT);
}

static int64_t take_length(uint64_t length)
{
    struct sp_message got;
    uint8_t head[8];
    for (int i = 0; i < 8; i++)
        head[7 - i] = (uint8_t)(length >> 8 * i);
    return sp_parse(head, sizeof(head), false, &got);
}

Test(net_sp, lengths_that_no_message_has_are_refused_at_once)
{
    cr_assert_eq(take_length(0), E_INVALID_ARGUMENT);
    cr_assert_eq(take_length(3), E_INVALID_ARGUMENT);
    cr_assert_eq(take_length(4), 0);
    cr_assert_eq(take_length(NET_MESSAGE_MAX_BYTES + SP_TRACE_MAX_BYTES), 0);
    cr_assert_eq(take_length(NET_MESSAGE_MAX_BYTES + SP_TRACE_MAX_BYTES + 1), E_INVALID_ARGUMENT);
    cr_assert_eq(take_length(UINT64_MAX), E_INVALID_ARGUMENT);
}

Test(net_sp, a_trace_ends_within_its_limit)
{
    enum { WORDS = SP_TRACE_MAX_BYTES / 4 };
    uint8_t bytes[8 + SP_TRACE_MAX_BYTES + 4] = {[7] = SP_TRACE_MAX_BYTES};
    struct sp_message got;
    size_t whole = 8 + SP_TRACE_MAX_BYTES;
    cr_assert_eq(sp_parse(bytes, whole, false, &got), E_INVALID_ARGUMENT); /* no last word */
    bytes[8 + 4 * (WORDS - 1)] = 0x80;
    cr_assert_eq(sp_parse(bytes, whole, false, &got), (int64_t)whole);
    cr_assert_eq(got.trace_bytes, SP_TRACE_MAX_BYTES);
    cr_assert_eq(got.body_bytes, 0);
    bytes[7] += 4; /* one hop more than there may be */
    bytes[8 + 4 * (WORDS - 1)] = 0;
    bytes[8 + 4 * WORDS] = 0x80;
    cr_assert_eq(sp_parse(bytes, sizeof(bytes), false, &got), E_INVALID_ARGUMENT);
}

Test(net_sp, heads_are_what_is_taken)
{
    uint8_t head[SP_HEAD_MAX_BYTES];
    cr_assert_eq(sp_head(13, false, head), 8);
    cr_assert_eq(memcmp(head, message, 8), 0);
    cr_assert_eq(sp_head(0x123456, true, head), 9);
    cr_assert_eq(memcmp(head, (uint8_t[]){1, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56}, 9), 0);
}

Test(net_sp, only_a_req_is_greeted)
{
    uint8_t greeting[SP_GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    cr_assert(sp_greets_as_req(greeting));
    for (int i = 0; i < SP_GREETING_BYTES; i++) {
        greeting[i] ^= 1;
        cr_assert_not(sp_greets_as_req(greeting), "byte %d", i);
        greeting[i] ^= 1;
    }
    cr_assert_not(sp_greets_as_req(sp_greeting_rep));
}
