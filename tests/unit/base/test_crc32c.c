#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/rng.h"

/* RFC 3720, appendix B.4, and the usual check value. */
Test(crc32c, known_vectors)
{
    unsigned char bytes[32];
    cr_assert_eq(crc32c(0, "123456789", 9), 0xe3069283);
    cr_assert_eq(crc32c(0, "", 0), 0);
    memset(bytes, 0, sizeof(bytes));
    cr_assert_eq(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    cr_assert_eq(crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    cr_assert_eq(crc32c(0, bytes, 32), 0x46dd794e);
    cr_assert_eq(crc32c_plain(0, bytes, 32), 0x46dd794e);
}

Test(crc32c, hardware_and_table_agree_at_every_length_and_alignment)
{
    unsigned char bytes[300];
    struct rng rng;
    if (!crc32c_has_hardware())
        cr_skip_test("this processor has no CRC-32C instruction");
    rng_seed(&rng, 7);
    rng_fill(&rng, bytes, sizeof(bytes));
    for (size_t start = 0; start < 9; start++)
        for (size_t size = 0; size < 280; size++)
            cr_assert_eq(crc32c(3, bytes + start, size), crc32c_plain(3, bytes + start, size));
}

Test(crc32c, pieces_give_the_same_as_the_whole)
{
    const char text[] = "the quick brown fox jumps over the lazy dog";
    for (size_t cut = 0; cut < sizeof(text); cut++)
        cr_assert_eq(crc32c(crc32c(0, text, cut), text + cut, sizeof(text) - cut),
                     crc32c(0, text, sizeof(text)));
}
