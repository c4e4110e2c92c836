/* The rehearsal device's own state, for its files. rehearsal.c owns it.
 *
 *     rehearsal.c ──► work.c ──► line.c ──► declared.c ──┐
 *         ├─────────────┴─────► pinned.c ───────────────┼──► memory.c ──► history.c
 *         └────────────────────► fault.c ────────────────┘
 *
 * space.c is beside pinned.c. fiber.c is below all but memory.c and history.c (ThreadSanitizer).
 */
#ifndef REHEARSAL_STATE_H
#define REHEARSAL_STATE_H

#include "common/base/map.h"
#include "common/base/rng.h"
#include "libworker/device/device_ops.h"
#include "libworker/device/rehearsal/history.h"
#include "libworker/device/rehearsal/rehearsal.h"

/* A copy between pinned memory and the device that the host has not waited for. */
struct flight {
    size_t first, end; /* bytes of the pinned memory */
    bool fetch;        /* its target, else its source */
    int queue;
    uint64_t at;
    uint32_t sum; /* of the source's content */
    const char *name;
};

/* An allocation, with a page on either side that is never opened. Device memory is closed except
 * while a launch runs. Host code sees pinned memory as `at`, the device as `view`: the two differ
 * while a copy is in flight. */
struct span {
    int number;         /* in order of allocation, from 1 */
    char *at;           /* begins a page */
    size_t bytes, room; /* as asked for, and in whole pages */
    enum memory_kind kind;
    bool freed, *open; /* the pages in use of addresses apart from memory (space.h), else NULL */
    struct history history;
    char *view;             /* of pinned memory */
    struct flight *flights; /* in order of enqueuing */
    int n_flights, flights_capacity;
};

/* A run of bytes that a launch uses in one way; those of a launch are sorted and disjoint. */
struct segment {
    char *at;
    size_t bytes;
    enum device_use use;
};

enum { SEGMENTS_MAX = 2 * LAUNCH_RANGES_MAX };

struct work {
    struct work *next;
    struct queue *queue;
    const char *name;
    uint64_t at;       /* its number in its queue, from 1 */
    struct event wait; /* if `run` is NULL */
    void (*run)(struct queue *queue, const void *args);
    void *args;
    struct segment *segments;
    int n_segments;
    void *tag, *after; /* fiber.h: of itself, and of what a wait is for */
};

/* The clock of a queue after its work `at`. */
struct mark {
    uint64_t at;
    struct clock clock;
    void *tag;
};

struct line {
    struct queue base;
    struct line *next; /* of all that there were */
    int index;         /* in rehearsal.lines and in clocks */
    bool freed;
    struct work *first, *last; /* that has not run */
    uint64_t enqueued, done;   /* numbers of work */
    struct clock clock;        /* of what is enqueued next, without the host's */
    struct mark *marks;        /* of recorded events that the host has not waited for */
    int n_marks, marks_capacity;
    struct fiber *fiber;
    void *tag; /* fiber.h: of the latest work */
};

struct rehearsal {
    struct device base;
    struct rehearsal_options options;
    struct rng rng;
    double eager; /* chance that work runs before the host waits */
    size_t page;
    struct span **spans; /* by address, freed ones included */
    int n_spans, spans_capacity, n_freed, n_numbers, n_pieces;
    bool leaving;      /* space.c is in a leave */
    size_t used_bytes; /* device memory that is allocated */
    struct line *lines[DEVICE_QUEUES_MAX];
    uint64_t counts[DEVICE_QUEUES_MAX]; /* work of earlier queues of that index */
    struct line *all;
    struct clock host; /* what the host has waited for */
    const struct work *running;
    char *copies; /* of what a launch may touch: grows */
    size_t copies_bytes;
    uint64_t ran, pending; /* pieces of work */
    struct strmap names;   /* keys only */
    void **tags;           /* of all work, in ThreadSanitizer's builds */
    int n_tags, tags_capacity;
};

static inline struct rehearsal *rehearsal_of(struct device *device)
{
    return (struct rehearsal *)device;
}

static inline struct line *line_of(struct queue *queue)
{
    return (struct line *)queue;
}

#endif
