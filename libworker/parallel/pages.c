#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libworker/parallel/pages.h"

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t count)
{
    size_t page = page_bytes();
    return (count * sizeof(float) + page - 1) / page * page;
}

float *pages_new(size_t count)
{
    if (!count)
        return NULL;
    void *pages = mmap(NULL, whole_pages(count), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    /* Huge pages would keep what was given back next to what is in use. */
    (void)madvise(pages, whole_pages(count), MADV_NOHUGEPAGE);
    return pages;
}

void pages_free(float *pages, size_t count)
{
    if (pages)
        (void)munmap(pages, whole_pages(count));
}

void pages_drop(float *first, size_t count)
{
    uintptr_t page = page_bytes(), begin = (uintptr_t)first, end = (uintptr_t)(first + count);
    uintptr_t from = (begin + page - 1) / page * page, to = end / page * page;
    if (from >= to || madvise((void *)from, to - from, MADV_DONTNEED)) {
        memset(first, 0, count * sizeof(*first));
        return;
    }
    memset(first, 0, from - begin);
    memset((void *)to, 0, end - to);
}

size_t pages_resident(const float *first, size_t count)
{
    enum { SEEN = 1024 };
    unsigned char seen[SEEN];
    size_t page = page_bytes(), resident = 0;
    uintptr_t at = (uintptr_t)first / page * page, end = (uintptr_t)(first + count);
    while (at < end) {
        size_t left = (end - at + page - 1) / page, n = left < SEEN ? left : SEEN;
        if (mincore((void *)at, n * page, seen))
            break;
        for (size_t i = 0; i < n; i++)
            resident += seen[i] & 1 ? page : 0;
        at += n * page;
    }
    return resident;
}
