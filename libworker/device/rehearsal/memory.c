#include "libworker/device/rehearsal/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/assert.h"

void rehearsal_found(struct rehearsal *rehearsal, const char *fmt, ...)
{
    char text[REHEARSAL_SENTENCE_MAX];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(text, sizeof(text) - 1, fmt, args);
    va_end(args);
    if (rehearsal->options.found) {
        rehearsal->options.found(rehearsal->options.self, text);
        return;
    }
    size_t end = (size_t)length < sizeof(text) - 1 ? (size_t)length : sizeof(text) - 2;
    text[end] = '\n';
    (void)!write(STDERR_FILENO, text, end + 1);
    abort();
}

/* The first span that ends, with the page after it, after the address. */
static int span_from(const struct rehearsal *r, const char *address)
{
    int low = 0, high = r->n_spans;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (r->spans[middle]->at + r->spans[middle]->room + r->page <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct span *span_at(const struct rehearsal *r, const void *address)
{
    int i = span_from(r, address);
    if (i == r->n_spans || (const char *)address < r->spans[i]->at - r->page)
        return NULL;
    return r->spans[i];
}

const char *span_text(const struct span *span, const void *address, char ret[SPAN_TEXT_MAX])
{
    (void)snprintf(ret, SPAN_TEXT_MAX, "byte %td of %s memory %d (%zu bytes)%s",
                   (const char *)address - span->at,
                   span->kind == MEMORY_PINNED ? "pinned" : "device", span->number, span->bytes,
                   span->freed ? ", which was freed" : "");
    return ret;
}

void pages_protect(char *at, size_t bytes, int protection)
{
    if (bytes)
        insist(mprotect(at, bytes, protection) == 0);
}

static const unsigned char patterns[2][2] = {{0xfd, 0x7f}, {0x00, 0x3c}};

void poison_fill(char *at, size_t bytes, int pattern)
{
    const unsigned char *two = patterns[pattern];
    size_t done = bytes < 2 ? bytes : 2;
    for (size_t i = 0; i < done; i++)
        at[i] = (char)two[((uintptr_t)at + i) % 2];
    for (size_t more; done < bytes; done += more) {
        more = done < bytes - done ? done : bytes - done;
        memcpy(at + done, at, more);
    }
}

size_t poison_missing(const char *at, size_t bytes, int pattern)
{
    const unsigned char *two = patterns[pattern];
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)at[i] != two[((uintptr_t)at + i) % 2])
            return i;
        if (i == 1 && !memcmp(at, at + 2, bytes - 2))
            return bytes;
    }
    return bytes;
}

static void span_insert(struct rehearsal *r, struct span *span)
{
    int i = span_from(r, span->at);
    r->spans = array_reserve(r->spans, r->n_spans, &r->spans_capacity, sizeof(struct span *));
    memmove(&r->spans[i + 1], &r->spans[i], (size_t)(r->n_spans - i) * sizeof(struct span *));
    r->spans[i] = span;
    r->n_spans++;
}

static void span_unmap(struct rehearsal *r, struct span *span)
{
    (void)munmap(span->at - r->page, span->room + 2 * r->page);
    history_fini(&span->history);
    free(span->open);
    free(span->view);
    free(span->flights);
    free(span);
}

bool memory_fits(const struct rehearsal *r, size_t bytes)
{
    size_t limit = r->options.memory_bytes ? r->options.memory_bytes : SIZE_MAX / 4;
    return bytes <= limit && r->used_bytes <= limit - bytes;
}

static struct span *span_make(struct rehearsal *r, enum memory_kind kind, size_t bytes)
{
    size_t room = bytes ? (bytes + r->page - 1) / r->page * r->page : r->page;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *base = mmap(NULL, room + 2 * r->page, PROT_NONE, flags, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    struct span *span = calloc(1, sizeof(*span));
    char *view = kind == MEMORY_PINNED ? calloc(1, room) : NULL;
    if (!span || (kind == MEMORY_PINNED && !view)) {
        (void)munmap(base, room + 2 * r->page);
        free(span);
        free(view);
        return NULL;
    }
    *span = (struct span){.number = ++r->n_numbers,
                          .at = base + r->page,
                          .bytes = bytes,
                          .room = room,
                          .kind = kind,
                          .view = view};
    history_init(&span->history, bytes, kind == MEMORY_PINNED);
    if (kind == MEMORY_PINNED)
        pages_protect(span->at, span->room, PROT_READ | PROT_WRITE);
    span_insert(r, span);
    return span;
}

struct span *span_new(struct rehearsal *r, enum memory_kind kind, size_t bytes)
{
    size_t limit = r->options.memory_bytes ? r->options.memory_bytes : SIZE_MAX / 4;
    if (bytes > limit || (kind == MEMORY_DEVICE && !memory_fits(r, bytes)))
        return NULL;
    struct span *span = span_make(r, kind, bytes);
    if (span && kind == MEMORY_DEVICE)
        r->used_bytes += bytes;
    return span;
}

struct span *span_reserve(struct rehearsal *r, size_t bytes)
{
    struct span *span = bytes <= SIZE_MAX / 4 ? span_make(r, MEMORY_DEVICE, bytes) : NULL;
    if (!span)
        return NULL;
    span->open = calloc(span->room / r->page, sizeof(*span->open));
    insist(span->open);
    return span;
}

/* The oldest freed span is no longer recognised. */
static void forget_oldest(struct rehearsal *r)
{
    int oldest = -1;
    for (int i = 0; i < r->n_spans; i++)
        if (r->spans[i]->freed && (oldest < 0 || r->spans[i]->number < r->spans[oldest]->number))
            oldest = i;
    insist(oldest >= 0);
    span_unmap(r, r->spans[oldest]);
    r->n_spans--;
    memmove(&r->spans[oldest], &r->spans[oldest + 1],
            (size_t)(r->n_spans - oldest) * sizeof(struct span *));
    r->n_freed--;
}

void span_free(struct rehearsal *r, enum memory_kind kind, void *memory, size_t bytes)
{
    char text[SPAN_TEXT_MAX];
    struct span *span = span_at(r, memory);
    if (!span || span->at != memory || span->kind != kind || span->freed) {
        rehearsal_found(r, "a free of %s, which is not %s memory of this device",
                        span ? span_text(span, memory, text) : "an unknown address",
                        kind == MEMORY_PINNED ? "pinned" : "device");
        return;
    }
    if (span->bytes != bytes)
        rehearsal_found(r, "a free of %s as %zu bytes", span_text(span, memory, text), bytes);
    struct conflict used = history_pending(&span->history, &r->host);
    if (used.kind != CONFLICT_NONE && !r->base.code)
        rehearsal_found(r,
                        "a free of %s, which launch \"%s\" (%ju of queue %d) %s: "
                        "the host has not waited for it",
                        span_text(span, span->at + used.first, text), used.touch.name,
                        (uintmax_t)used.touch.at, used.queue, used.wrote ? "writes" : "reads");
    if (kind == MEMORY_DEVICE && !span->open)
        r->used_bytes -= span->bytes;
    span->freed = true;
    span->n_flights = 0;
    pages_protect(span->at, span->room, PROT_NONE);
    (void)madvise(span->at, span->room, MADV_DONTNEED);
    if (++r->n_freed > REHEARSAL_FREED_MAX)
        forget_oldest(r);
}

void spans_fini(struct rehearsal *r)
{
    for (int i = 0; i < r->n_spans; i++) {
        struct span *span = r->spans[i];
        if (!span->freed)
            rehearsal_found(r, "%s memory %d (%zu bytes) was not freed",
                            span->kind == MEMORY_PINNED ? "pinned" : "device", span->number,
                            span->bytes);
        span_unmap(r, span);
    }
    free(r->spans);
    r->spans = NULL;
    r->n_spans = 0;
}
