#include "libworker/device/rehearsal/history.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

struct cell {
    size_t first;
    bool defined; /* something has been written */
    int writer;   /* queue of `write` */
    struct touch write;
    struct touch reads[DEVICE_QUEUES_MAX];
};

void clock_join(struct clock *clock, const struct clock *other)
{
    for (int i = 0; i < DEVICE_QUEUES_MAX; i++)
        if (clock->at[i] < other->at[i])
            clock->at[i] = other->at[i];
}

void history_init(struct history *history, size_t bytes, bool written)
{
    *history = (struct history){.bytes = bytes};
    history->cells = array_reserve(NULL, 0, &history->capacity, sizeof(struct cell));
    history->cells[history->count++] = (struct cell){.defined = written};
}

void history_fini(struct history *history)
{
    free(history->cells);
    *history = (struct history){0};
}

static size_t cell_end(const struct history *history, int i)
{
    return i + 1 < history->count ? history->cells[i + 1].first : history->bytes;
}

/* The last cell that begins at or before `at`. */
static int cell_of(const struct history *history, size_t at)
{
    int low = 0, high = history->count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (history->cells[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The cell that begins at `at`; history->count at the end of the memory. */
static int cut_at(struct history *history, size_t at)
{
    if (at >= history->bytes)
        return history->count;
    int i = cell_of(history, at);
    if (history->cells[i].first == at)
        return i;
    history->cells =
        array_reserve(history->cells, history->count, &history->capacity, sizeof(struct cell));
    memmove(&history->cells[i + 1], &history->cells[i],
            (size_t)(history->count - i) * sizeof(struct cell));
    history->count++;
    history->cells[i + 1].first = at;
    return i + 1;
}

/* A touch of the cell that is not before `clock`; `reads`: whether reads count. */
static struct conflict unordered(const struct history *history, int i, const struct clock *clock,
                                 bool reads)
{
    const struct cell *cell = &history->cells[i];
    struct conflict conflict = {CONFLICT_UNORDERED, cell->first, cell_end(history, i)};
    if (cell->write.at > clock->at[cell->writer]) {
        conflict.queue = cell->writer;
        conflict.touch = cell->write;
        conflict.wrote = true;
        return conflict;
    }
    for (int q = 0; reads && q < DEVICE_QUEUES_MAX; q++)
        if (cell->reads[q].at > clock->at[q]) {
            conflict.queue = q;
            conflict.touch = cell->reads[q];
            return conflict;
        }
    return (struct conflict){0};
}

static void note(struct cell *cell, const struct access *access)
{
    switch (access->use) {
    case DEVICE_READ:
        cell->reads[access->queue] = access->touch;
        return;
    case DEVICE_WRITE:
    case DEVICE_UPDATE:
    case DEVICE_SCRATCH:
        break;
    }
    memset(cell->reads, 0, sizeof(cell->reads));
    cell->write = access->touch;
    cell->writer = access->queue;
    cell->defined = access->use != DEVICE_SCRATCH;
}

struct conflict history_add(struct history *history, const struct access *access)
{
    struct conflict first = {0};
    int i = cut_at(history, access->first);
    int end = cut_at(history, access->end);
    for (; i < end; i++) {
        struct cell *cell = &history->cells[i];
        if (first.kind == CONFLICT_NONE)
            first = unordered(history, i, access->clock, access->use != DEVICE_READ);
        if (first.kind == CONFLICT_NONE && !cell->defined && access->use & DEVICE_READ)
            first = (struct conflict){CONFLICT_UNWRITTEN, cell->first, cell_end(history, i)};
        note(cell, access);
    }
    return first;
}

struct conflict history_pending(const struct history *history, const struct clock *clock)
{
    for (int i = 0; i < history->count; i++) {
        struct conflict conflict = unordered(history, i, clock, true);
        if (conflict.kind != CONFLICT_NONE)
            return conflict;
    }
    return (struct conflict){0};
}
