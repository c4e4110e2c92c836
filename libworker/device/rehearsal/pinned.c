#include "libworker/device/rehearsal/pinned.h"

#include <string.h>
#include <sys/mman.h>

#include "common/base/array.h"
#include "common/base/crc32c.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/memory.h"

struct span *pinned_of(const struct rehearsal *r, const void *at, size_t bytes)
{
    struct span *span = span_at(r, at);
    if (!span || span->kind != MEMORY_PINNED || span->freed || (const char *)at < span->at)
        return NULL;
    size_t first = (size_t)((const char *)at - span->at);
    return first <= span->bytes && bytes <= span->bytes - first ? span : NULL;
}

static void protect_pages_of(const struct rehearsal *r, struct span *span, bool fetch)
{
    for (int i = 0; i < span->n_flights; i++) {
        const struct flight *flight = &span->flights[i];
        size_t first = (flight->first + r->page - 1) / r->page * r->page;
        size_t end = flight->end == span->bytes ? span->room : flight->end / r->page * r->page;
        if (flight->fetch == fetch && first < end)
            pages_protect(span->at + first, end - first, fetch ? PROT_NONE : PROT_READ);
    }
}

static void open_all(struct span *span)
{
    pages_protect(span->at, span->room, PROT_READ | PROT_WRITE);
}

static void protect_flights(const struct rehearsal *r, struct span *span)
{
    open_all(span);
    protect_pages_of(r, span, false);
    protect_pages_of(r, span, true);
}

/* The next run of bytes in [*first, end) that no copy to the host is about to write; *first becomes
 * its beginning. Returns its end, `end` with *first at `end` if there is none. */
static size_t next_free_run(const struct span *span, size_t *first, size_t end)
{
    size_t until = end;
    for (int i = 0; i < span->n_flights && *first < end; i++) {
        const struct flight *flight = &span->flights[i];
        if (flight->fetch && flight->first <= *first && *first < flight->end) {
            *first = flight->end < end ? flight->end : end;
            i = -1; /* others may cover the new beginning */
        }
    }
    for (int i = 0; i < span->n_flights; i++)
        if (span->flights[i].fetch && span->flights[i].first > *first &&
            span->flights[i].first < until)
            until = span->flights[i].first;
    return until;
}

static uint32_t sum_of(const struct span *span, const struct flight *flight)
{
    return crc32c(0, span->at + flight->first, flight->end - flight->first);
}

static void check_source(struct rehearsal *r, const struct span *span, const struct flight *flight)
{
    char text[SPAN_TEXT_MAX];
    if (sum_of(span, flight) != flight->sum)
        rehearsal_found(r,
                        "host code writes pinned memory from %s on, the source of \"%s\" "
                        "(%ju of queue %d), before it has waited for it",
                        span_text(span, span->at + flight->first, text), flight->name,
                        (uintmax_t)flight->at, flight->queue);
}

static bool overlaps(const struct flight *a, const struct flight *b)
{
    return a->first < b->end && b->first < a->end;
}

void pinned_begin(struct rehearsal *r, struct span *span, const struct flight *flight)
{
    open_all(span);
    fiber_hide_begin();
    if (flight->fetch) {
        for (int i = 0; i < span->n_flights; i++)
            if (!span->flights[i].fetch && overlaps(&span->flights[i], flight))
                check_source(r, span, &span->flights[i]);
        poison_fill(span->at + flight->first, flight->end - flight->first, 0);
        for (int i = 0; i < span->n_flights; i++)
            span->flights[i].sum = sum_of(span, &span->flights[i]);
    } else {
        size_t first = flight->first, end;
        for (; first < flight->end; first = end) {
            end = next_free_run(span, &first, flight->end);
            memcpy(span->view + first, span->at + first, end - first);
        }
    }
    fiber_hide_end();
    span->flights =
        array_reserve(span->flights, span->n_flights, &span->flights_capacity, sizeof(*flight));
    span->flights[span->n_flights] = *flight;
    span->flights[span->n_flights].sum = sum_of(span, flight);
    span->n_flights++;
    protect_flights(r, span);
}

void pinned_cancel(struct rehearsal *r, struct span *span)
{
    span->n_flights--;
    protect_flights(r, span);
}

/* A target gets what the device has written; it must still be as pinned_begin left it. */
static void land(struct rehearsal *r, struct span *span, const struct flight *flight)
{
    char text[SPAN_TEXT_MAX];
    bool right = true;
    size_t first = flight->first, end;
    for (; first < flight->end; first = end) {
        end = next_free_run(span, &first, flight->end);
        char *at = span->at + first;
        size_t changed = poison_missing(at, end - first, 0);
        if (changed < end - first && right)
            rehearsal_found(r,
                            "host code writes %s, the target of \"%s\" (%ju of queue %d), "
                            "before it has waited for it",
                            span_text(span, at + changed, text), flight->name,
                            (uintmax_t)flight->at, flight->queue);
        right = right && changed == end - first;
        memcpy(at, span->view + first, end - first);
    }
    for (int i = 0; i < span->n_flights; i++)
        if (overlaps(&span->flights[i], flight))
            span->flights[i].sum = sum_of(span, &span->flights[i]);
}

static void release_span(struct rehearsal *r, struct span *span)
{
    for (int i = 0; i < span->n_flights;) {
        struct flight flight = span->flights[i];
        if (r->host.at[flight.queue] < flight.at) {
            i++;
            continue;
        }
        open_all(span);
        span->n_flights--;
        memmove(&span->flights[i], &span->flights[i + 1],
                (size_t)(span->n_flights - i) * sizeof(flight));
        if (flight.fetch)
            land(r, span, &flight);
        else
            check_source(r, span, &flight);
        protect_flights(r, span);
    }
}

void pinned_release(struct rehearsal *r)
{
    for (int i = 0; i < r->n_spans; i++)
        release_span(r, r->spans[i]);
}

void pinned_abandon(struct rehearsal *r)
{
    for (int i = 0; i < r->n_spans; i++) {
        struct span *span = r->spans[i];
        if (!span->n_flights)
            continue;
        span->n_flights = 0;
        open_all(span);
    }
}
