#include <criterion/criterion.h>
#include <string.h>

#include "common/base/name.h"

Test(name, lower_case_letters_digits_dots_and_dashes)
{
    static const char *const good[] = {"a", "0", "node-1.example", "7b", "a.", "a-", "z9"};
    static const char *const bad[] = {"",   ".",  "-",   ".a",  "-a",  "A",
                                      "aB", "a_", "a b", "a/b", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_expect(name_valid(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_not(name_valid(bad[i]), "%s", bad[i]);
}

Test(name, of_at_most_63_bytes)
{
    char name[NAME_LENGTH_MAX + 2] = "";
    memset(name, 'a', NAME_LENGTH_MAX);
    cr_expect(name_valid(name));
    name[NAME_LENGTH_MAX] = 'a';
    cr_expect_not(name_valid(name));
}
