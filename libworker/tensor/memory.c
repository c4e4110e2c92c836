#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libworker/tensor/memory.h"

enum { HUGE_PAGE_BYTES = 2 * 1024 * 1024 };

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* At an address where a huge page can begin: mapped with extra space, which is released. The end is
 * not rounded up to a huge page, so that no memory is wasted. */
static void *map_large(size_t bytes)
{
    size_t whole = whole_pages(bytes), room = whole + HUGE_PAGE_BYTES;
    char *space = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)space % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    if (skip)
        (void)munmap(space, skip);
    if (room - skip > whole)
        (void)munmap(space + skip + whole, room - skip - whole);
    /* A wish: not every system grants it. */
    (void)madvise(space + skip, whole, MADV_HUGEPAGE);
    return space + skip;
}

void *memory_new(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    if (bytes >= MEMORY_LARGE_BYTES)
        return map_large(bytes);
    size_t rounded = (bytes / MEMORY_ALIGN_BYTES + 1) * MEMORY_ALIGN_BYTES;
    void *memory = aligned_alloc(MEMORY_ALIGN_BYTES, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

void memory_free(void *memory, size_t bytes)
{
    if (memory && bytes >= MEMORY_LARGE_BYTES)
        (void)munmap(memory, whole_pages(bytes));
    else
        free(memory);
}
