#include "libworker/device/rehearsal/line.h"

#include <stdlib.h>

#include <worker/error.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "libworker/device/rehearsal/declared.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/memory.h"

struct line *line_new(struct rehearsal *r)
{
    for (int i = 0; i < DEVICE_QUEUES_MAX; i++) {
        if (r->lines[i])
            continue;
        struct line *line = calloc(1, sizeof(*line));
        if (!line)
            return NULL;
        line->base.device = &r->base;
        line->fiber = fiber_new();
        line->index = i;
        line->enqueued = line->done = r->counts[i];
        line->next = r->all;
        r->all = r->lines[i] = line;
        return line;
    }
    return NULL;
}

static bool is_ready(const struct line *line)
{
    const struct work *work = line->first;
    if (!work)
        return false;
    return work->run || line_of(work->wait.queue)->done >= work->wait.at;
}

/* What the queue does after a wait is after what the event is after. */
static void run_wait(void *arg)
{
    struct work *work = arg;
    fiber_acquire(work);
    fiber_acquire(work->after);
    fiber_release(work->tag);
}

static void run_first(struct rehearsal *r, struct line *line)
{
    struct work *work = line->first;
    line->first = work->next;
    if (!line->first)
        line->last = NULL;
    if (work->run) {
        r->running = work;
        if (++r->ran == r->options.fail_at)
            queue_fail(&line->base, WK_EINTERNAL,
                       "it was to fail at \"%s\", the %juth piece of work", work->name,
                       (uintmax_t)r->ran);
        else
            declared_run(r, work);
        r->running = NULL;
    } else {
        fiber_call(line->fiber, run_wait, work);
    }
    line->done = work->at;
    fiber_hide_begin(); /* the fiber has read it */
    free(work);
    fiber_hide_end();
    r->pending--;
}

/* Run one of the pieces of work that may be next; false: there is none. */
static bool run_any(struct rehearsal *r)
{
    struct line *ready[DEVICE_QUEUES_MAX];
    uint64_t n = 0;
    for (int i = 0; i < DEVICE_QUEUES_MAX && !r->base.code; i++)
        if (r->lines[i] && is_ready(r->lines[i]))
            ready[n++] = r->lines[i];
    if (n)
        run_first(r, ready[rng_below(&r->rng, n)]);
    return n > 0;
}

void lines_run_until(struct rehearsal *r, const struct line *line, uint64_t at)
{
    while (line->done < at && run_any(r))
        ;
    insist(line->done >= at || r->base.code);
}

void line_append(struct rehearsal *r, struct line *line, struct work *work)
{
    while (r->pending >= LINE_PENDING_MAX && run_any(r))
        ;
    work->queue = &line->base;
    if (FIBERS) {
        r->tags = array_reserve(r->tags, r->n_tags, &r->tags_capacity, sizeof(*r->tags));
        work->tag = line->tag = r->tags[r->n_tags++] = malloc(1);
        fiber_release(work);
    }
    if (line->last)
        line->last->next = work;
    else
        line->first = work;
    line->last = work;
    r->pending++;
    while (rng_chance(&r->rng, r->eager) && run_any(r))
        ;
}

static void drop_work(struct rehearsal *r, struct line *line)
{
    while (line->first) {
        struct work *work = line->first;
        line->first = work->next;
        line->done = work->at;
        free(work);
        r->pending--;
    }
    line->last = NULL;
}

void line_free(struct rehearsal *r, struct line *line)
{
    if (line->freed) {
        rehearsal_found(r, "a second free of queue %d", line->index);
        return;
    }
    if (r->host.at[line->index] < line->enqueued && !r->base.code)
        rehearsal_found(r, "a free of queue %d, which has work that the host has not waited for",
                        line->index);
    lines_run_until(r, line, line->enqueued);
    drop_work(r, line);
    line->freed = true;
    r->counts[line->index] = line->enqueued;
    r->lines[line->index] = NULL;
}

void lines_fini(struct rehearsal *r)
{
    while (r->all) {
        struct line *line = r->all;
        r->all = line->next;
        if (!line->freed)
            rehearsal_found(r, "queue %d was not freed", line->index);
        drop_work(r, line);
        free(line->marks);
        fiber_free(line->fiber);
        free(line);
    }
    for (int i = 0; i < r->n_tags; i++)
        free(r->tags[i]);
    free(r->tags);
}
