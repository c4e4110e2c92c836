#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "coordinator/api_rpc/board.h"

static struct error why; /* the last refusal of set */

static int set(struct board *board, uint64_t generation, const char *key, size_t size)
{
    static char data[BOARD_VALUE_MAX_BYTES + 1];
    struct board_place place = {.tenant = "red", .job = "j1", .generation = generation, .key = key};
    struct board_value value = {.data = data, .size = size};
    return board_set(board, &place, &value, &why);
}

static bool has(struct board *board, uint64_t generation, const char *key)
{
    struct board_place place = {.tenant = "red", .job = "j1", .generation = generation, .key = key};
    struct board_value value;
    return board_get(board, &place, &value);
}

Test(board, values_live_as_long_as_their_generation)
{
    struct board *board;
    cr_assert_eq(board_new(&board, NULL), 0);
    cr_assert_eq(set(board, 1, "k", 3), 0);
    cr_assert_eq(set(board, 2, "k", 0), 0);
    cr_assert(has(board, 1, "k") && has(board, 2, "k"));
    cr_assert_not(has(board, 1, "other"));
    board_forget(board, "j1", 2);
    cr_assert_not(has(board, 1, "k"));
    cr_assert(has(board, 2, "k"));
    board_forget(board, "j1", UINT64_MAX);
    cr_assert_not(has(board, 2, "k"));
    board_free(board);
}

Test(board, has_limits)
{
    struct board *board;
    char key[BOARD_KEY_MAX + 2];
    cr_assert_eq(board_new(&board, NULL), 0);
    memset(key, 'k', sizeof(key));
    key[BOARD_KEY_MAX + 1] = 0;
    cr_assert_eq(set(board, 1, "", 1), E_INVALID_ARGUMENT);
    cr_assert_eq(set(board, 1, key, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(set(board, 1, "k", BOARD_VALUE_MAX_BYTES + 1), E_INVALID_ARGUMENT);
    int rc = 0, count = 0;
    for (; rc == 0 && count < 100000; count++) {
        snprintf(key, sizeof(key), "key-%d", count);
        rc = set(board, 1, key, BOARD_VALUE_MAX_BYTES);
    }
    cr_assert_eq(rc, E_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(why.text, "limit board_bytes"), "%s", why.text);
    cr_assert_leq(count, BOARD_JOB_MAX_BYTES / BOARD_VALUE_MAX_BYTES + 1);
    cr_assert_eq(set(board, 1, "key-0", BOARD_VALUE_MAX_BYTES), 0, "replacing takes no more room");
    cr_assert_eq(set(board, 2, "key-0", 10), 0);
    board_free(board);
}

Test(board, a_tenants_boards_have_a_sum)
{
    struct board *board;
    static char data[BOARD_VALUE_MAX_BYTES];
    struct board_value value = {.data = data, .size = sizeof(data)};
    char job[16], key[16];
    int count = 0;
    cr_assert_eq(board_new(&board, NULL), 0);
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 250; j++) {
            (void)snprintf(job, sizeof(job), "j%d", i);
            (void)snprintf(key, sizeof(key), "key-%d", j);
            struct board_place place = {.tenant = "red", .job = job, .generation = 1, .key = key};
            if (!board_has_room(board, &place, &value))
                continue;
            cr_assert_eq(board_set(board, &place, &value, NULL), 0);
            count++;
        }
    cr_assert_eq(count, MAX_TENANT_BOARD_BYTES / (BOARD_VALUE_MAX_BYTES + BOARD_ENTRY_BYTES + 5));
    struct board_place old = {.tenant = "red", .job = "j0", .generation = 1, .key = "key-0"};
    struct board_place other = {.tenant = "blue", .job = "j11", .generation = 1, .key = "key-0"};
    cr_expect(board_has_room(board, &old, &value), "replacing takes no more room");
    cr_expect(board_has_room(board, &other, &value));
    board_forget(board, "j0", UINT64_MAX);
    old.job = "j12";
    cr_expect(board_has_room(board, &old, &value));
    board_free(board);
}
