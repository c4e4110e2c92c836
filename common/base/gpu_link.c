#include "common/base/gpu_link.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"

static const struct {
    enum gpu_link link;
    const char *word;
} words[] = {
    {GPU_LINK_UNKNOWN, "-"}, {GPU_LINK_SYS, "SYS"}, {GPU_LINK_NODE, "NODE"}, {GPU_LINK_PHB, "PHB"},
    {GPU_LINK_PXB, "PXB"},   {GPU_LINK_PIX, "PIX"}, {GPU_LINK_SELF, "X"},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

uint8_t gpu_link_of_nvlinks(int nvlinks)
{
    int counted = nvlinks < GPU_LINK_NVLINKS_MAX ? nvlinks : GPU_LINK_NVLINKS_MAX;
    return (uint8_t)(GPU_LINK_NVLINK + counted);
}

int gpu_link_nvlinks(uint8_t link)
{
    return link > GPU_LINK_NVLINK && link != GPU_LINK_SELF ? link - GPU_LINK_NVLINK : 0;
}

void gpu_link_write(uint8_t link, char ret[GPU_LINK_WORD_BYTES])
{
    const char *word = words[0].word;
    for (int i = 0; i < WORDS; i++)
        word = link == words[i].link ? words[i].word : word;
    if (gpu_link_nvlinks(link))
        (void)str_printf(ret, GPU_LINK_WORD_BYTES, "NV%d", gpu_link_nvlinks(link));
    else
        (void)str_copy(ret, GPU_LINK_WORD_BYTES, word);
}

static uint8_t read_word(const char *word)
{
    int64_t nvlinks;
    if (str_starts(word, "NV") && !parse_i64(word + 2, 1, GPU_LINK_NVLINKS_MAX, &nvlinks, NULL))
        return gpu_link_of_nvlinks((int)nvlinks);
    for (int i = 0; i < WORDS; i++)
        if (strcmp(word, words[i].word) == 0)
            return (uint8_t)words[i].link;
    return GPU_LINK_UNKNOWN;
}

void gpu_links_write(const uint8_t *links, int count, char ret[GPU_LINKS_TEXT_BYTES])
{
    bool known = false;
    size_t used = 0;
    ret[0] = '\0';
    for (int i = 0; i < count && i < GPU_LINKS_MAX; i++) {
        char word[GPU_LINK_WORD_BYTES];
        gpu_link_write(links[i], word);
        known = known || (links[i] != GPU_LINK_UNKNOWN && links[i] != GPU_LINK_SELF);
        (void)str_printf(ret + used, GPU_LINKS_TEXT_BYTES - used, "%s%s", i ? " " : "", word);
        used += strlen(ret + used);
    }
    if (!known)
        ret[0] = '\0';
}

int gpu_links_read(const char *row, uint8_t ret[GPU_LINKS_MAX])
{
    int count = 0;
    memset(ret, GPU_LINK_UNKNOWN, GPU_LINKS_MAX);
    for (row += strspn(row, " "); *row && count < GPU_LINKS_MAX; row += strspn(row, " ")) {
        char word[GPU_LINK_WORD_BYTES];
        size_t length = strcspn(row, " ");
        bool fits = !str_printf(word, sizeof(word), "%.*s", (int)length, row);
        ret[count++] = fits ? read_word(word) : GPU_LINK_UNKNOWN;
        row += length;
    }
    return count;
}
