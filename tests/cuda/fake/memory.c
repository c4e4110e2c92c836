/* Device memory is one range of addresses, used once from its begin to its end; pinned memory is in
 * a range of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/assert.h"
#include "libworker/device/rehearsal/fiber.h"
#include "tests/cuda/fake/inside.h"
#include "tests/cuda/fake/space.h"

#define RANGE_BYTES ((size_t)64 << 30)
enum { ALIGN = 256, GAP = 256, PAGE = 2 << 20 }; /* a huge page: one entry to open and close */

struct piece {
    char *at;
    size_t bytes;
    int device;
};

/* The pieces of a range, by address: the freed ones have at NULL. */
struct range {
    char *begin;
    size_t used;
    struct piece *pieces;
    int n, capacity, live;
    size_t opened; /* bytes that mprotect has made accessible */
};

static struct range device, pinned;
static size_t in_use[FAKE_DEVICES_MAX];
static bool is_open;

static void range_begin(struct range *range)
{
    if (range->begin)
        return;
    char *at = mmap(NULL, RANGE_BYTES + PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    insist(at != MAP_FAILED);
    range->begin = at + (PAGE - (uintptr_t)at % PAGE) % PAGE;
    (void)madvise(range->begin, RANGE_BYTES, MADV_HUGEPAGE);
}

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static void protect(struct range *range, int how)
{
    if (range->used)
        insist(mprotect(range->begin, rounded(range->used, PAGE), how) == 0);
}

static struct piece *range_add(struct range *range, size_t bytes)
{
    if (range->n == range->capacity) {
        range->capacity = range->capacity ? 2 * range->capacity : 64;
        range->pieces = realloc(range->pieces, (size_t)range->capacity * sizeof(*range->pieces));
        insist(range->pieces);
    }
    struct piece *piece = &range->pieces[range->n++];
    *piece = (struct piece){range->begin + range->used, bytes, fake.device};
    range->used += rounded(bytes, ALIGN) + GAP;
    range->live++;
    return piece;
}

bool fake_memory_count(int number, size_t bytes)
{
    size_t limit = fake.options.memory_bytes;
    if (fake_is_scarce() || (limit && in_use[number] + bytes > limit))
        return false;
    in_use[number] += bytes;
    return true;
}

void fake_memory_uncount(int number, size_t bytes)
{
    in_use[number] -= bytes;
}

void *fake_memory_new(bool is_pinned, size_t bytes)
{
    struct range *range = is_pinned ? &pinned : &device;
    size_t limit = fake.options.memory_bytes;
    range_begin(range);
    if (bytes > RANGE_BYTES || range->used + bytes + PAGE > RANGE_BYTES || fake_is_scarce() ||
        (!is_pinned && limit && in_use[fake.device] + bytes > limit))
        return NULL;
    char *before = range->begin + range->used;
    struct piece *piece = range_add(range, bytes);
    size_t end = (size_t)(before - range->begin) + rounded(bytes, ALIGN) + GAP;
    if (is_pinned) {
        protect(range, PROT_READ | PROT_WRITE);
    } else {
        is_open = false;
        fake_memory_open();
    }
    FAKE_UNPOISON(piece->at, bytes);
    memset(piece->at, 0xff, bytes);
    FAKE_POISON(piece->at + bytes, (size_t)(range->begin + end - piece->at) - bytes);
    if (!is_pinned)
        in_use[fake.device] += bytes;
    return piece->at;
}

static struct piece *piece_at(struct range *range, const void *at, size_t bytes)
{
    const char *first = at;
    for (int i = 0; i < range->n; i++) {
        struct piece *piece = &range->pieces[i];
        if (piece->at && first >= piece->at && first + bytes <= piece->at + piece->bytes)
            return piece;
    }
    return NULL;
}

/* Give the whole pages around a freed piece back, in which there is no other piece. */
static void pages_return(const struct range *range, int freed)
{
    int before = freed - 1, after = freed + 1;
    while (before >= 0 && !range->pieces[before].at)
        before--;
    while (after < range->n && !range->pieces[after].at)
        after++;
    const struct piece *low = before >= 0 ? &range->pieces[before] : NULL;
    size_t begin = low ? rounded((size_t)(low->at - range->begin) + low->bytes, PAGE) : 0;
    size_t end = after < range->n ? (size_t)(range->pieces[after].at - range->begin) : range->used;
    if (end / PAGE * PAGE > begin)
        (void)madvise(range->begin + begin, end / PAGE * PAGE - begin, MADV_DONTNEED);
}

bool fake_memory_free(bool is_pinned, void *memory)
{
    struct range *range = is_pinned ? &pinned : &device;
    struct piece *piece = piece_at(range, memory, 0);
    if (!piece || piece->at != memory)
        return false;
    if (!is_pinned) {
        fake_memory_open();
        in_use[piece->device] -= piece->bytes;
    }
    fiber_hide_begin();
    memset(piece->at, 0xff, piece->bytes); /* for work that touches it all the same */
    fiber_hide_end();
    FAKE_POISON(piece->at, piece->bytes);
    piece->at = NULL;
    range->live--;
    pages_return(range, (int)(piece - range->pieces));
    return true;
}

bool fake_is_device(const void *at, size_t bytes)
{
    return piece_at(&device, at, bytes) || space_has(at, bytes);
}

bool fake_is_pinned(const void *at, size_t bytes)
{
    return piece_at(&pinned, at, bytes);
}

void fake_memory_open(void)
{
    if (!is_open) {
        protect(&device, PROT_READ | PROT_WRITE);
        space_protect(PROT_READ | PROT_WRITE);
    }
    is_open = true;
}

void fake_memory_close(void)
{
    if (is_open) {
        protect(&device, PROT_NONE);
        space_protect(PROT_NONE);
    }
    is_open = false;
}

bool fake_memory_is_device(const void *at)
{
    const char *here = at;
    return space_is(at) ||
           (device.begin && here >= device.begin && here < device.begin + device.used);
}

size_t fake_memory_used(int number)
{
    return in_use[number];
}

int fake_memory_live(void)
{
    return device.live + pinned.live + space_live();
}

/* The addresses can be used again: nobody has any. */
static void range_end(struct range *range)
{
    if (range->used)
        (void)madvise(range->begin, rounded(range->used, PAGE), MADV_DONTNEED);
    FAKE_UNPOISON(range->begin, range->used);
    free(range->pieces);
    *range = (struct range){.begin = range->begin};
}

void fake_memory_end(void)
{
    fake_memory_close();
    range_end(&device);
    range_end(&pinned);
    space_end();
    memset(in_use, 0, sizeof(in_use));
}
