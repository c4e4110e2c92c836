#include "agent/supervisor/mask.h"

#include <criterion/criterion.h>
#include <string.h>

/* What comes out when `text` comes in pieces of `step` bytes. */
static char *masked(const struct mask *mask, const char *text, size_t step)
{
    struct mask_stream stream = {0};
    struct buf out = {0};
    for (size_t at = 0, size = strlen(text); at < size; at += step)
        mask_append(mask, &stream, text + at, size - at < step ? size - at : step, &out);
    mask_flush(mask, &stream, &out);
    mask_stream_fini(&stream);
    char *ret = buf_take(&out, NULL);
    cr_assert_not_null(ret);
    buf_fini(&out);
    return ret;
}

static void expect(const struct mask *mask, const char *text, const char *clean)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        char *got = masked(mask, text, step);
        cr_expect_str_eq(got, clean, "in pieces of %zu: %s", step, got);
        free(got);
    }
}

Test(mask, a_value_is_replaced_wherever_it_stands_and_however_it_comes)
{
    struct mask mask = {0};
    cr_assert(mask_add(&mask, "hf_abcdef"));
    expect(&mask, "hf_abcdef", "***");
    expect(&mask, "a hf_abcdef, hf_abcdefhf_abcdef\nhf_abcde\nf hf_hf_abcdefg",
           "a ***, ******\nhf_abcde\nf hf_***g");
    expect(&mask, "ends in the middle of hf_abcde", "ends in the middle of hf_abcde");
    mask_fini(&mask);
}

Test(mask, the_longest_of_several_values_wins)
{
    struct mask mask = {0};
    cr_assert(mask_add(&mask, "secret") && mask_add(&mask, "secret-and-more") &&
              mask_add(&mask, "crescendo"));
    expect(&mask, "secret-and-more secret-and-mor secret- crescendo secrescendo",
           "*** ***-and-mor ***- *** se***");
    mask_fini(&mask);
}

Test(mask, values_that_repeat_themselves_are_found_at_their_first_place)
{
    struct mask mask = {0};
    cr_assert(mask_add(&mask, "aaaaab"));
    expect(&mask, "aaaaaaab aaaaa", "aa*** aaaaa");
    mask_fini(&mask);
}

Test(mask, each_line_of_a_value_counts_and_short_ones_do_not)
{
    struct mask mask = {0};
    cr_assert(mask_add(&mask, "-----BEGIN KEY-----\r\nAAAABBBB\nshort\n\n-----END KEY-----\n"));
    cr_assert_eq(mask.count, 3);
    expect(&mask, "x AAAABBBB y\nshort\n-----END KEY-----", "x *** y\nshort\n***");
    mask_fini(&mask);
}

Test(mask, without_values_everything_passes_at_once)
{
    struct mask mask = {0};
    struct mask_stream stream = {0};
    struct buf out = {0};
    cr_assert(mask_add(&mask, "five5") && mask.count == 0);
    mask_append(&mask, &stream, "five", 4, &out);
    cr_assert_str_eq(buf_cstr(&out), "five");
    buf_fini(&out);
    mask_fini(&mask);
}
