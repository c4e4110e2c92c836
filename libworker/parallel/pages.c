#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <worker/comm.h>

#include "common/base/assert.h"
#include "libworker/device/device.h"
#include "libworker/device/slots.h"
#include "libworker/device/wire_ops.h"
#include "libworker/parallel/pages.h"
#include "libworker/tensor/mapped.h"

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t count)
{
    size_t page = page_bytes();
    return (count * sizeof(float) + page - 1) / page * page;
}

int pages_init(struct pages *pages, size_t count, bool shared)
{
    *pages = (struct pages){.count = count};
    if (!count)
        return 0;
    if (shared) {
        int rc = wk_arena_new(whole_pages(count), &pages->arena);
        if (rc)
            return rc;
        pages->data = wk_arena_data(pages->arena);
    } else {
        void *data = mmap(NULL, whole_pages(count), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED)
            return WK_ENOMEM;
        pages->data = data;
    }
    /* Huge pages would keep what was given back next to what is in use. */
    (void)madvise(pages->data, whole_pages(count), MADV_NOHUGEPAGE);
    return 0;
}

int pages_place(struct pages *pages, struct queue *queue, size_t count, enum pages_use use)
{
    size_t bytes = count * sizeof(*pages->data);
    void *data = NULL;
    int rc = 0;
    if (device_host_reads(queue_device(queue)))
        return pages_init(pages, count, use == PAGES_SHARED);
    *pages = (struct pages){.count = count, .queue = queue};
    if (count)
        rc = use == PAGES_PRIVATE ? device_zeros_new(queue, bytes, &data, NULL)
                                  : wire_zeros_new(queue, bytes, &data, NULL);
    pages->data = data;
    return rc;
}

void pages_place_slots(struct pages *pages, struct queue *queue, size_t count, struct slots *slots)
{
    *pages =
        (struct pages){.data = slots_data(slots), .count = count, .queue = queue, .slots = slots};
}

int pages_map(struct pages *pages, size_t count, const char *dir, struct error *err)
{
    struct error own = {0};
    *pages = (struct pages){.count = count};
    pages->data = mapped_new(dir, count, &own);
    if (!pages->data && err)
        *err = own;
    return own.code;
}

void pages_fini(struct pages *pages)
{
    /* A communicator that knows the arena keeps it until it ends, which costs an address but no
     * memory. */
    if (pages->slots) {
        slots_free(pages->slots);
    } else if (pages->queue) {
        device_memory_free(queue_device(pages->queue), pages->data,
                           pages->count * sizeof(*pages->data));
    } else if (pages->arena) {
        pages_drop(pages, 0, whole_pages(pages->count) / sizeof(*pages->data));
        wk_arena_free(pages->arena);
    } else if (pages->data) {
        (void)munmap(pages->data, whole_pages(pages->count));
    }
    *pages = (struct pages){0};
}

void pages_drop(const struct pages *pages, size_t first, size_t count)
{
    float *at = pages->data + first;
    if (pages->slots) {
        insist(first == 0 && count == pages->count);
        slots_leave_all(pages->slots);
        return;
    }
    if (pages->queue) {
        queue_fill(pages->queue, at, 0, count * sizeof(*at));
        return;
    }
    uintptr_t page = page_bytes(), begin = (uintptr_t)at, end = (uintptr_t)(at + count);
    uintptr_t from = (begin + page - 1) / page * page, to = end / page * page;
    /* Private pages become zeros when they are dropped; shared ones must be removed from the memory
     * object. */
    int how = pages->arena ? MADV_REMOVE : MADV_DONTNEED;
    if (from >= to || madvise((void *)from, to - from, how)) {
        memset(at, 0, count * sizeof(*at));
        return;
    }
    memset(at, 0, from - begin);
    memset((void *)to, 0, end - to);
}

size_t pages_resident(const struct pages *pages, size_t first, size_t count)
{
    enum { SEEN = 1024 };
    unsigned char seen[SEEN];
    size_t page = page_bytes(), resident = 0;
    const float *begin = pages->data + first;
    uintptr_t at = (uintptr_t)begin / page * page, end = (uintptr_t)(begin + count);
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
