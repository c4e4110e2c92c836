/* The picture of `muster top` is written over the one before, and cut to the window. */
#include <criterion/criterion.h>

#include "cli/top_screen.h"

static void expect_fit(const char *text, int rows, int columns, const char *expected)
{
    struct buf out = {0};
    top_screen_fit(text, rows, columns, &out);
    cr_expect_str_eq(buf_cstr(&out), expected);
    buf_fini(&out);
}

#define END "\033[0m\033[K" /* of a line: what was there before it is erased */

Test(top_screen, each_line_is_cut_to_the_window_and_its_rest_erased)
{
    expect_fit("abcdef\n\nxy\n", 10, 3, "\033[Habc" END "\n" END "\nxy" END "\033[J");
    expect_fit("", 10, 3, "\033[H\033[J");
    expect_fit("no end", 10, 30, "\033[Hno end" END "\033[J");
}

Test(top_screen, lines_below_the_window_would_scroll_it)
{
    expect_fit("a\nb\nc\n", 2, 3, "\033[Ha" END "\nb" END "\033[J");
}

Test(top_screen, colours_take_no_room_and_letters_are_whole)
{
    expect_fit("\033[32mrunning\033[0m!", 1, 3, "\033[H\033[32mrun\033[0m" END "\033[J");
    expect_fit("\u00e9\u2192x\u00e9", 1, 3, "\033[H\u00e9\u2192x" END "\033[J");
    expect_fit("\033[3\nx", 2, 3, "\033[H\033[3" END "\nx" END "\033[J");
}
