#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "common/base/arena.h"

Test(arena, allocations_are_apart_aligned_and_keep_their_bytes)
{
    struct arena arena;
    unsigned char *blocks[200];
    arena_init(&arena, 0);
    for (int i = 0; i < 200; i++) {
        blocks[i] = arena_alloc(&arena, (size_t)i + 1);
        cr_assert_not_null(blocks[i]);
        cr_assert_eq((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], i, (size_t)i + 1);
    }
    for (int i = 0; i < 200; i++)
        for (int j = 0; j <= i; j++)
            cr_assert_eq(blocks[i][j], i);
    arena_fini(&arena);
}

Test(arena, refuses_what_exceeds_its_maximum_and_still_serves_what_fits)
{
    struct arena arena;
    arena_init(&arena, 1024);
    cr_assert_null(arena_alloc(&arena, 1025));
    cr_assert_null(arena_alloc(&arena, SIZE_MAX));
    cr_assert_not_null(arena_alloc(&arena, 1000));
    cr_assert_null(arena_alloc(&arena, 100));
    cr_assert_not_null(arena_alloc(&arena, 16));
    cr_assert_null(arena_alloc(&arena, 0));
    arena_fini(&arena);
    cr_assert_not_null(arena_alloc(&arena, 1024), "usable again after fini");
    arena_fini(&arena);
}

Test(arena, zeroed_memory_is_an_arena_and_large_blocks_get_their_own_chunk)
{
    struct arena arena = {0};
    char *large = arena_zalloc(&arena, 3 << 20);
    cr_assert_not_null(large);
    cr_assert_eq(large[(3 << 20) - 1], 0);
    cr_assert_not_null(arena_alloc(&arena, 1));
    arena_fini(&arena);
    arena_fini(&arena);
}

Test(arena, array_checks_the_product_for_overflow)
{
    struct arena arena = {0};
    cr_assert_null(arena_array(&arena, SIZE_MAX / 2, 3));
    uint64_t *numbers = arena_array(&arena, 10, sizeof(*numbers));
    for (int i = 0; i < 10; i++)
        cr_assert_eq(numbers[i], 0);
    arena_fini(&arena);
}

Test(arena, texts_are_copied_and_terminated)
{
    struct arena arena = {0};
    char source[] = "source";
    char *copy = arena_strdup(&arena, source);
    char *part = arena_strndup(&arena, source, 3);
    source[0] = 'X';
    cr_assert_str_eq(copy, "source");
    cr_assert_str_eq(part, "sou");
    cr_assert_null(arena_strdup(&arena, NULL));
    cr_assert_null(arena_strndup(&arena, source, SIZE_MAX));
    cr_assert_str_eq(arena_strndup(&arena, NULL, 0), "");
    cr_assert_str_eq(arena_printf(&arena, "%s-%d", "rank", 7), "rank-7");
    arena_fini(&arena);
}
