#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/str.h"

Test(str, views_compare_and_trim)
{
    cr_assert(str_equal(str_of("ab"), (struct str){"abc", 2}));
    cr_assert_not(str_equal(str_of("ab"), str_of("abc")));
    cr_assert(str_equal(str_of(NULL), str_of("")));
    cr_assert(str_equal(str_trim(str_of(" \t a b\r\n")), str_of("a b")));
    cr_assert_eq(str_trim(str_of("   ")).size, 0);
}

Test(str, next_cuts_at_each_separator)
{
    struct str rest = str_of("a,,bc,"), part;
    char joined[32] = "";
    while (str_next(&rest, ',', &part))
        snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "[%.*s]", (int)part.size,
                 part.data);
    cr_assert_str_eq(joined, "[a][][bc]");
    rest = str_of("");
    cr_assert_not(str_next(&rest, ',', &part));
}

Test(str, prefixes_and_suffixes)
{
    cr_assert(str_starts("abc", "ab"));
    cr_assert(str_starts("abc", ""));
    cr_assert_not(str_starts("a", "ab"));
    cr_assert(str_ends("abc", "bc"));
    cr_assert(str_ends("abc", ""));
    cr_assert_not(str_ends("c", "bc"));
}

Test(str, a_copy_that_does_not_fit_says_so_and_cuts_between_characters)
{
    char buffer[5];
    cr_assert_eq(str_copy(buffer, sizeof(buffer), "1234"), 0);
    cr_assert_str_eq(buffer, "1234");
    cr_assert_eq(str_copy(buffer, sizeof(buffer), "12345"), E_OUT_OF_RANGE);
    cr_assert_str_eq(buffer, "1234");
    cr_assert_eq(str_copy(buffer, sizeof(buffer), "123\xc3\xa9"), E_OUT_OF_RANGE);
    cr_assert_str_eq(buffer, "123", "no half character");
    cr_assert_eq(str_copy(buffer, 1, "x"), E_OUT_OF_RANGE);
    cr_assert_str_eq(buffer, "");
    cr_assert_eq(str_copy(buffer, 1, ""), 0);
    cr_assert_eq(str_printf(buffer, sizeof(buffer), "%d", 12345), E_OUT_OF_RANGE);
    cr_assert_eq(str_printf(buffer, sizeof(buffer), "%d", 1234), 0);
}

Test(str, distance_counts_edits)
{
    cr_assert_eq(str_distance("", "", 3), 0);
    cr_assert_eq(str_distance("nodes", "nodes", 3), 0);
    cr_assert_eq(str_distance("nodes", "Nodes", 3), 0);
    cr_assert_eq(str_distance("nodes", "ndoes", 3), 1);
    cr_assert_eq(str_distance("", "abc", 3), 3);
    cr_assert_eq(str_distance("kitten", "sitting", 5), 3);
    cr_assert_eq(str_distance("kitten", "sitting", 2), 3);
    cr_assert_eq(str_distance("abc", "xyz", 0), 1);
    char longer[STR_DISTANCE_LENGTH_MAX + 2];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    cr_assert_eq(str_distance(longer, longer, 3), 4, "too long to compare");
    longer[STR_DISTANCE_LENGTH_MAX] = '\0';
    cr_assert_eq(str_distance(longer, longer, 3), 0);
}

Test(str, nearest_offers_only_what_is_near)
{
    static const char *const names[] = {"nodes", "node", "workers_per_node", NULL};
    cr_assert_str_eq(str_nearest("nodse", names), "nodes");
    cr_assert_str_eq(str_nearest("node", names), "node");
    cr_assert_str_eq(str_nearest("worker_per_node", names), "workers_per_node");
    cr_assert_null(str_nearest("priority", names));
    cr_assert_null(str_nearest("", names));
    cr_assert_null(str_nearest("x", (const char *const[]){NULL}));
}

Test(utf8, every_code_point_goes_there_and_back)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char bytes[4];
        uint32_t back = 0;
        size_t length = utf8_encode(c, bytes);
        if (c >= 0xd800 && c < 0xe000) {
            cr_assert_eq(length, 0);
            continue;
        }
        if (utf8_decode(bytes, length, &back) != length || back != c)
            cr_assert_fail("U+%04X", c);
        if (utf8_decode(bytes, length - 1, &back) == length)
            cr_assert_fail("U+%04X cut short", c);
    }
    char bytes[4];
    cr_assert_eq(utf8_encode(0x110000, bytes), 0);
}

Test(utf8, malformed_sequences_are_refused)
{
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc3",             /* cut short */
        "\xc0\x80",         /* overlong NUL */
        "\xe0\x80\xaf",     /* overlong slash */
        "\xf0\x80\x80\xaf", /* overlong slash */
        "\xed\xa0\x80",     /* surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xff",
        "\xc3\x28",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(utf8_valid(bad[i], strlen(bad[i])), "%zu", i);
    cr_assert(utf8_valid("", 0));
    for (size_t at = 0; at < 24; at++) { /* wherever it stands among plain letters */
        char text[] = "abcdefghijklmnopqrstuvwxyz";
        memcpy(text + at, "\xc3\xa9", 2);
        cr_assert(utf8_valid(text, strlen(text)), "%zu", at);
        text[at + 1] = 'x';
        cr_assert_not(utf8_valid(text, strlen(text)), "%zu", at);
        cr_assert_not(utf8_valid(text, at + 1), "%zu", at);
    }
    cr_assert_eq(utf8_columns("a\xc3\xa9\xf0\x9f\x8c\x8d"), 3);
}

Test(str, plural_of_all_but_one)
{
    cr_expect_str_eq(str_plural(1), "");
    cr_expect_str_eq(str_plural(0), "s");
    cr_expect_str_eq(str_plural(2), "s");
    cr_expect_str_eq(str_plural(-1), "s");
}
