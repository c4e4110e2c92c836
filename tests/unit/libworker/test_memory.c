/* Memory for tensors: zeroed and aligned whatever its size, and huge pages where they are to be
 * had.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/tensor/memory.h"

Test(memory, is_zeroed_and_aligned_at_every_size)
{
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   4096,
                                   MEMORY_LARGE_BYTES - 1,
                                   MEMORY_LARGE_BYTES,
                                   MEMORY_LARGE_BYTES + 1,
                                   3 * MEMORY_LARGE_BYTES + 12345};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        unsigned char *memory = memory_new(sizes[s]);
        cr_assert_not_null(memory);
        cr_expect_eq((uintptr_t)memory % MEMORY_ALIGN_BYTES, 0);
        for (size_t i = 0; i < sizes[s]; i++)
            cr_assert_eq(memory[i], 0, "byte %zu of %zu", i, sizes[s]);
        memset(memory, 1, sizes[s]);
        memory_free(memory, sizes[s]);
    }
    memory_free(NULL, 1);
    memory_free(NULL, MEMORY_LARGE_BYTES);
}

Test(memory, that_is_not_there_is_null)
{
    cr_expect_null(memory_new(SIZE_MAX));
    cr_expect_null(memory_new(SIZE_MAX / 4));
}

/* From /proc/self/smaps: KiB of huge pages behind the mapping that begins at `memory`. */
static long huge_kib(const void *memory)
{
    char line[256];
    bool inside = false;
    long kib = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        static const char key[] = "AnonHugePages:";
        char *dash, *blank;
        unsigned long from = strtoul(line, &dash, 16);
        unsigned long to = *dash == '-' ? strtoul(dash + 1, &blank, 16) : 0;
        if (*dash == '-' && *blank == ' ')
            inside = (uintptr_t)memory >= from && (uintptr_t)memory < to;
        else if (inside && !strncmp(line, key, sizeof(key) - 1))
            kib += strtol(line + sizeof(key) - 1, NULL, 10);
    }
    if (maps)
        (void)fclose(maps);
    return kib;
}

static bool granted(void)
{
    char word[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (file && !fgets(word, sizeof(word), file))
        word[0] = '\0';
    if (file)
        (void)fclose(file);
    return strstr(word, "[madvise]") || strstr(word, "[always]");
}

Test(memory, that_is_large_lies_in_huge_pages_where_the_system_grants_them)
{
    enum { BYTES = 64 * 1024 * 1024 };
    if (!granted())
        cr_skip_test("transparent huge pages are off on this machine");
    char *memory = memory_new(BYTES);
    cr_assert_not_null(memory);
    memset(memory, 1, BYTES);
    cr_expect_gt(huge_kib(memory), 0);
    memory_free(memory, BYTES);
}
