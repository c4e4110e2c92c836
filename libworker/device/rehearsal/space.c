#include "libworker/device/rehearsal/space.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/rehearsal/memory.h"
#include "libworker/device/rehearsal/work.h"

struct device_piece {
    size_t bytes;
};

static size_t rehearsal_granule(struct device *device)
{
    return rehearsal_of(device)->page;
}

static void *rehearsal_reserve(struct device *device, size_t bytes)
{
    struct span *span = span_reserve(rehearsal_of(device), bytes);
    return span ? span->at : NULL;
}

static void rehearsal_unreserve(struct device *device, void *at, size_t bytes)
{
    span_free(rehearsal_of(device), MEMORY_DEVICE, at, bytes);
}

static struct device_piece *rehearsal_piece_new(struct device *device, size_t bytes)
{
    struct rehearsal *r = rehearsal_of(device);
    struct device_piece *piece = memory_fits(r, bytes) ? malloc(sizeof(*piece)) : NULL;
    if (!piece)
        return NULL;
    piece->bytes = bytes;
    r->used_bytes += bytes;
    r->n_pieces++;
    return piece;
}

static void rehearsal_piece_free(struct device *device, struct device_piece *piece)
{
    rehearsal_of(device)->used_bytes -= piece->bytes;
    rehearsal_of(device)->n_pieces--;
    free(piece);
}

static int rehearsal_map(struct device *device, struct device_piece *piece, void *at, size_t bytes)
{
    (void)device;
    (void)at;
    insist(bytes <= piece->bytes);
    return 0;
}

/* Its content is lost, and nothing may use it any more. */
static void rehearsal_unmap(struct device *device, void *at, size_t bytes)
{
    struct rehearsal *r = rehearsal_of(device);
    struct span *span = span_at(r, at);
    char text[SPAN_TEXT_MAX];
    struct conflict used = history_pending(&span->history, &r->host);
    size_t first = (size_t)((char *)at - span->at);
    if (used.kind != CONFLICT_NONE && used.first < first + bytes && used.end > first &&
        !r->base.code)
        rehearsal_found(r, "%s is unmapped, used by \"%s\": the host has not waited for it",
                        span_text(span, span->at + used.first, text), used.touch.name);
    memset(span->open + first / r->page, 0, bytes / r->page * sizeof(*span->open));
}

static void rehearsal_taken(struct device *device, const struct device_range *range)
{
    struct rehearsal *r = rehearsal_of(device);
    struct span *span = span_at(r, range->at);
    size_t first = (size_t)((const char *)range->at - span->at);
    memset(span->open + first / r->page, true, range->bytes / r->page * sizeof(*span->open));
}

static void run_leave(struct queue *queue, const void *args)
{
    (void)queue;
    (void)args;
}

static void rehearsal_left(struct queue *queue, const struct device_range *ranges, int n)
{
    struct rehearsal *r = rehearsal_of(queue->device);
    struct span *span = span_at(r, ranges[0].at);
    size_t first = (size_t)((const char *)ranges[0].at - span->at);
    const struct device_launch leave = {
        .name = "slots_leave", .run = run_leave, .ranges = ranges, .n_ranges = n};
    r->leaving = true;
    (void)work_launch(r, line_of(queue), &leave, NULL);
    r->leaving = false;
    memset(span->open + first / r->page, 0, ranges[0].bytes / r->page * sizeof(*span->open));
}

const struct space_ops rehearsal_spaces = {
    .granule = rehearsal_granule,
    .reserve = rehearsal_reserve,
    .unreserve = rehearsal_unreserve,
    .piece_new = rehearsal_piece_new,
    .piece_free = rehearsal_piece_free,
    .map = rehearsal_map,
    .unmap = rehearsal_unmap,
    .taken = rehearsal_taken,
    .left = rehearsal_left,
};
