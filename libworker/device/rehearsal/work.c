#include "libworker/device/rehearsal/work.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "libworker/device/rehearsal/declared.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/line.h"
#include "libworker/device/rehearsal/memory.h"
#include "libworker/device/rehearsal/pinned.h"

/* The name for as long as the device lives. */
static const char *intern(struct rehearsal *r, const char *name)
{
    struct map_entry *entry = strmap_find(&r->names, name);
    if (!entry) {
        insist(strmap_set(&r->names, name, r, NULL) == 0);
        entry = strmap_find(&r->names, name);
    }
    return entry->name;
}

static bool may_enqueue(struct rehearsal *r, const struct line *line, const char *what)
{
    if (line->freed)
        rehearsal_found(r, "\"%s\" on queue %d, which was freed", what, line->index);
    else if (r->running)
        rehearsal_found(r, "launch \"%s\" enqueues \"%s\"", r->running->name, what);
    return !line->freed && !r->running && !r->base.code;
}

/* The number of new work of the line; its clock is after all that the host has waited for. */
static uint64_t number_next(struct rehearsal *r, struct line *line)
{
    clock_join(&line->clock, &r->host);
    line->clock.at[line->index] = ++line->enqueued;
    return line->enqueued;
}

static bool is_in_use(const struct rehearsal *r, const struct span *span,
                      const struct segment *segment)
{
    bool open = true;
    if (!span->open || !segment->bytes || r->leaving)
        return true;
    size_t first = (size_t)(segment->at - span->at), last = first + segment->bytes - 1;
    for (size_t page = first / r->page; page <= last / r->page; page++)
        open = open && span->open[page];
    return open;
}

/* The memory of a segment, if it is one memory of that kind; a finding otherwise. */
static struct span *memory_of(struct rehearsal *r, const char *name, const struct segment *segment,
                              enum memory_kind kind)
{
    char text[SPAN_TEXT_MAX];
    struct span *span = span_at(r, segment->at);
    bool whole = span && !span->freed && span->kind == kind && segment->at >= span->at &&
                 segment->bytes <= span->bytes &&
                 (size_t)(segment->at - span->at) <= span->bytes - segment->bytes;
    if (whole && !is_in_use(r, span, segment)) {
        rehearsal_found(r, "\"%s\" uses %zu bytes from %s, which is not taken: see slots.h", name,
                        segment->bytes, span_text(span, segment->at, text));
        return NULL;
    }
    if (whole)
        return span;
    rehearsal_found(r, "\"%s\" declares %zu bytes from %s, which is not %s memory of this device",
                    name, segment->bytes,
                    span ? span_text(span, segment->at, text) : "an unknown address",
                    kind == MEMORY_PINNED ? "pinned" : "device");
    return NULL;
}

static void note_access(struct rehearsal *r, const struct line *line, struct touch touch,
                        const struct segment *segment, enum memory_kind kind)
{
    char text[SPAN_TEXT_MAX];
    struct span *span = memory_of(r, touch.name, segment, kind);
    if (!span)
        return;
    size_t first = (size_t)(segment->at - span->at);
    struct access access = {line->index, touch, &line->clock, first, first + segment->bytes,
                            segment->use};
    struct conflict c = history_add(&span->history, &access);
    switch (c.kind) {
    case CONFLICT_NONE:
        return;
    case CONFLICT_UNORDERED:
        rehearsal_found(r,
                        "no order between \"%s\" (%ju of queue %d), which %s %s, and \"%s\" "
                        "(%ju of queue %d), which %s it: an event is missing",
                        c.touch.name, (uintmax_t)c.touch.at, c.queue, c.wrote ? "writes" : "reads",
                        span_text(span, span->at + c.first, text), touch.name, (uintmax_t)touch.at,
                        line->index, segment->use == DEVICE_READ ? "reads" : "writes");
        return;
    case CONFLICT_UNWRITTEN:
        rehearsal_found(r, "\"%s\" (%ju of queue %d) reads %s, which no launch has written",
                        touch.name, (uintmax_t)touch.at, line->index,
                        span_text(span, span->at + c.first, text));
        return;
    }
}

static bool are_memory(struct rehearsal *r, const char *name, const struct segment *segments, int n)
{
    for (int i = 0; i < n; i++)
        if (!memory_of(r, name, &segments[i], MEMORY_DEVICE))
            return false;
    return true;
}

/* One allocation: the work, its segments, its arguments. */
static struct work *work_new(const struct device_launch *launch, const struct segment *segments,
                             int n)
{
    size_t head = sizeof(struct work) + (size_t)n * sizeof(*segments);
    size_t args = (head + 63) / 64 * 64;
    char *all = aligned_alloc(64, (args + launch->args_bytes + 63) / 64 * 64);
    insist(all);
    struct work *work = (struct work *)all;
    *work = (struct work){.run = launch->run, .n_segments = n};
    work->segments = (struct segment *)(all + sizeof(*work));
    work->args = all + args;
    for (int i = 0; i < n; i++)
        work->segments[i] = segments[i];
    if (launch->args_bytes)
        memcpy(work->args, launch->args, launch->args_bytes);
    return work;
}

bool work_launch(struct rehearsal *r, struct line *line, const struct device_launch *launch,
                 const struct device_range *pinned)
{
    struct segment segments[SEGMENTS_MAX];
    int n = declared_segments(launch->ranges, launch->n_ranges, segments);
    if (!may_enqueue(r, line, launch->name) || !are_memory(r, launch->name, segments, n))
        return false;
    struct work *work = work_new(launch, segments, n);
    work->name = intern(r, launch->name);
    work->at = number_next(r, line);
    struct touch touch = {work->at, work->name};
    for (int i = 0; i < n; i++)
        note_access(r, line, touch, &segments[i], MEMORY_DEVICE);
    if (pinned) {
        struct segment host = {(char *)(uintptr_t)pinned->at, pinned->bytes, pinned->use};
        note_access(r, line, touch, &host, MEMORY_PINNED);
    }
    line_append(r, line, work);
    return true;
}

static const struct mark *mark_of(const struct line *line, uint64_t at)
{
    for (int i = line->n_marks - 1; i >= 0; i--)
        if (line->marks[i].at == at)
            return &line->marks[i];
    return NULL;
}

struct event work_record(struct line *line)
{
    struct rehearsal *r = rehearsal_of(line->base.device);
    struct event event = {&line->base, line->enqueued};
    if (!may_enqueue(r, line, "event_record"))
        return r->base.code ? event : (struct event){0};
    if (r->host.at[line->index] >= line->enqueued || mark_of(line, line->enqueued))
        return event;
    line->marks =
        array_reserve(line->marks, line->n_marks, &line->marks_capacity, sizeof(*line->marks));
    line->marks[line->n_marks++] = (struct mark){line->enqueued, line->clock, line->tag};
    return event;
}

/* Join what is before the event. False: it is an event of a freed queue. */
static bool join_event(struct rehearsal *r, struct event event, struct clock *clock, void **ret_tag)
{
    const struct line *line = line_of(event.queue);
    if (line->freed) {
        rehearsal_found(r, "a wait for an event of queue %d, which was freed", line->index);
        return false;
    }
    clock_join(clock, &r->host);
    if (r->host.at[line->index] >= event.at || r->base.code)
        return true;
    const struct mark *mark = mark_of(line, event.at);
    insist(mark);
    clock_join(clock, &mark->clock);
    *ret_tag = mark->tag;
    return true;
}

void work_wait(struct rehearsal *r, struct line *line, struct event event)
{
    void *tag = NULL;
    if (!may_enqueue(r, line, "queue_wait") || !join_event(r, event, &line->clock, &tag))
        return;
    struct work *work = work_new(&(struct device_launch){0}, NULL, 0);
    work->name = "queue_wait";
    work->wait = event;
    work->after = tag;
    work->at = number_next(r, line);
    line_append(r, line, work);
}

/* Events that the host has waited for need no clock any more. */
static void drop_marks(const struct rehearsal *r)
{
    for (int q = 0; q < DEVICE_QUEUES_MAX; q++) {
        struct line *line = r->lines[q];
        int kept = 0;
        for (int i = 0; line && i < line->n_marks; i++)
            if (line->marks[i].at > r->host.at[q])
                line->marks[kept++] = line->marks[i];
        if (line)
            line->n_marks = kept;
    }
}

void work_finish(struct rehearsal *r, struct event event)
{
    struct clock host = r->host;
    void *tag = NULL;
    if (r->running) {
        rehearsal_found(r, "launch \"%s\" waits", r->running->name);
        return;
    }
    if (!join_event(r, event, &host, &tag))
        return;
    lines_run_until(r, line_of(event.queue), event.at);
    if (r->base.code) {
        pinned_abandon(r);
        return;
    }
    fiber_acquire(tag);
    r->host = host;
    drop_marks(r);
    pinned_release(r);
}
