#include <criterion/criterion.h>

#include <string.h>

#include "common/base/gpu_link.h"

Test(gpu_link, each_link_has_a_word_that_is_read_back)
{
    uint8_t read[GPU_LINKS_MAX];
    char row[GPU_LINKS_TEXT_BYTES];
    const uint8_t links[] = {GPU_LINK_SELF,    GPU_LINK_SYS,           GPU_LINK_NODE,
                             GPU_LINK_PHB,     GPU_LINK_PXB,           GPU_LINK_PIX,
                             GPU_LINK_UNKNOWN, gpu_link_of_nvlinks(1), gpu_link_of_nvlinks(18)};
    gpu_links_write(links, sizeof(links), row);
    cr_expect_str_eq(row, "X SYS NODE PHB PXB PIX - NV1 NV18");
    cr_expect_eq(gpu_links_read(row, read), (int)sizeof(links));
    cr_expect_eq(memcmp(read, links, sizeof(links)), 0);
    for (size_t i = sizeof(links); i < GPU_LINKS_MAX; i++)
        cr_expect_eq(read[i], GPU_LINK_UNKNOWN);
}

Test(gpu_link, a_nearer_pair_is_the_larger_number)
{
    uint8_t links[GPU_LINKS_MAX];
    int count = gpu_links_read("- SYS NODE PHB PXB PIX NV1 NV2 NV99 X", links);
    cr_assert_eq(count, 10);
    for (int i = 1; i < count; i++)
        cr_expect_gt(links[i], links[i - 1]);
}

Test(gpu_link, nvlinks_are_counted)
{
    cr_expect_eq(gpu_link_nvlinks(gpu_link_of_nvlinks(18)), 18);
    cr_expect_eq(gpu_link_nvlinks(gpu_link_of_nvlinks(5000)), GPU_LINK_NVLINKS_MAX);
    cr_expect_eq(gpu_link_nvlinks(GPU_LINK_PIX), 0);
    cr_expect_eq(gpu_link_nvlinks(GPU_LINK_SELF), 0);
}

Test(gpu_link, a_row_of_what_is_not_known_is_empty)
{
    char row[GPU_LINKS_TEXT_BYTES];
    gpu_links_write((const uint8_t[]){GPU_LINK_SELF, GPU_LINK_UNKNOWN}, 2, row);
    cr_expect_str_empty(row);
    gpu_links_write((const uint8_t[]){GPU_LINK_SELF}, 1, row);
    cr_expect_str_empty(row);
}

Test(gpu_link, the_longest_row_fits)
{
    uint8_t links[GPU_LINKS_MAX], read[GPU_LINKS_MAX];
    char row[GPU_LINKS_TEXT_BYTES];
    memset(links, gpu_link_of_nvlinks(99), sizeof(links));
    gpu_links_write(links, GPU_LINKS_MAX, row);
    cr_expect_eq(strlen(row), sizeof(row) - 1);
    cr_expect_eq(gpu_links_read(row, read), GPU_LINKS_MAX);
    cr_expect_eq(memcmp(read, links, sizeof(links)), 0);
}

Test(gpu_link, words_of_a_newer_agent_and_other_text_are_not_known)
{
    uint8_t links[GPU_LINKS_MAX];
    cr_expect_eq(gpu_links_read("  X  C2C NV0 NV100 NVx NODES sys ", links), 7);
    for (int i = 1; i < 7; i++)
        cr_expect_eq(links[i], GPU_LINK_UNKNOWN, "%d", i);
    cr_expect_eq(gpu_links_read("", links), 0);
    char many[3 * GPU_LINKS_MAX + 8] = "";
    for (int i = 0; i < GPU_LINKS_MAX + 2; i++)
        strcat(many, "X ");
    cr_expect_eq(gpu_links_read(many, links), GPU_LINKS_MAX);
}
