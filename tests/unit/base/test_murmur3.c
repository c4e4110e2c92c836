/* Against digests of the author's own program. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/murmur3.h"

static void is(const char *text, const char *digest)
{
    char found[MURMUR3_TEXT_BYTES];
    murmur3_text(text, strlen(text), found);
    cr_assert_str_eq(found, digest, "of '%s'", text);
}

Test(murmur3, digests_are_those_of_the_reference)
{
    is("", "00000000000000000000000000000000");
    is("hello", "cbd8a7b341bd9b025b1e906a48ae1d19");
    is("hello, world", "342fac623a5ebc8e4cdcbc079642414d");
    is("The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347");
}
