#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/str.h"

Test(buf, grows_and_stays_terminated)
{
    struct buf buf = {0};
    cr_assert_str_eq(buf_cstr(&buf), "");
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(buf_printf(&buf, "%d,", i), 0);
    cr_assert_eq(strlen(buf_cstr(&buf)), buf.size);
    cr_assert(str_starts(buf.data, "0,1,2,"));
    cr_assert(str_ends(buf.data, "998,999,"));
    buf_fini(&buf);
    buf_fini(&buf);
}

Test(buf, a_full_buffer_keeps_its_content_and_remembers)
{
    struct buf buf;
    buf_init(&buf, 5);
    cr_assert_eq(buf_str(&buf, "12345"), 0);
    cr_assert_eq(buf_char(&buf, '6'), E_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(buf_cstr(&buf), "12345");
    cr_assert(buf_failed(&buf));
    cr_assert_eq(buf_append(&buf, "", 0), E_RESOURCE_EXHAUSTED, "failure is sticky");
    cr_assert_null(buf_take(&buf, NULL));
    buf_clear(&buf);
    cr_assert_eq(buf_printf(&buf, "%s", "abcde"), 0);
    cr_assert_eq(buf_printf(&buf, "%s", "f"), E_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(buf_cstr(&buf), "abcde");
    buf_fini(&buf);
}

Test(buf, bytes_may_be_anything)
{
    struct buf buf = {0};
    buf_append(&buf, "a\0b", 3);
    buf_fill(&buf, 'x', 3);
    cr_assert_eq(buf.size, 6);
    cr_assert_eq(memcmp(buf.data, "a\0bxxx", 7), 0);
    buf_fini(&buf);
}

Test(buf, take_hands_the_memory_over)
{
    struct buf buf = {0};
    size_t size = 99;
    char *empty = buf_take(&buf, &size);
    cr_assert_str_eq(empty, "");
    cr_assert_eq(size, 0);
    free(empty);
    buf_str(&buf, "mine");
    char *text = buf_take(&buf, &size);
    cr_assert_str_eq(text, "mine");
    cr_assert_eq(size, 4);
    cr_assert_eq(buf.size, 0);
    free(text);
}

static void expect_json(const char *text, size_t size, const char *expected)
{
    struct buf buf = {0};
    cr_assert_eq(buf_json_string(&buf, text, size), 0);
    cr_assert_str_eq(buf_cstr(&buf), expected);
    buf_fini(&buf);
}

Test(buf, json_strings_are_escaped)
{
    expect_json("", 0, "\"\"");
    expect_json("plain / text", 12, "\"plain / text\"");
    expect_json("\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
    expect_json("\x01\x1f\x7f", 3, "\"\\u0001\\u001f\\u007f\"");
    expect_json("a\0b", 3, "\"a\\u0000b\"");
    expect_json("\xc3\xa9\xf0\x9f\x8c\x8d", 6, "\"\xc3\xa9\xf0\x9f\x8c\x8d\"");
}

Test(buf, json_strings_replace_invalid_utf8)
{
    expect_json("a\xff", 2, "\"a\xef\xbf\xbd\"");
    expect_json("\xc3", 1, "\"\xef\xbf\xbd\"");
    expect_json("\xc0\x80z", 3, "\"\xef\xbf\xbd\xef\xbf\xbdz\"");
}

Test(buf, text_for_a_terminal_has_no_control_characters)
{
    struct buf buf = {0};
    static const char text[] = "a\tb\x1b[2J\0\x7f\xc2\x9b\xc3\xa4\xc2\n\n\xc2\xa0";
    cr_assert_eq(buf_printable_lines(&buf, text, sizeof(text) - 1), 0);
    cr_assert_str_eq(buf_cstr(&buf), "a\tb?[2J???\xc3\xa4\xc2\n\n\xc2\xa0");
    buf_clear(&buf);
    cr_assert_eq(buf_printable(&buf, "a\nb\r\xc2", 5), 0);
    cr_assert_str_eq(buf_cstr(&buf), "a?b?\xc2");
    buf_fini(&buf);
}

Test(buf, a_json_string_that_does_not_fit_leaves_no_half)
{
    struct buf buf;
    buf_init(&buf, 8);
    buf_str(&buf, "ab");
    cr_assert_eq(buf_json_string(&buf, "123456", 6), E_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(buf_cstr(&buf), "ab");
    buf_fini(&buf);
}
