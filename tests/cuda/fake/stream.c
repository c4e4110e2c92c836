#include "tests/cuda/fake/stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/rehearsal/fiber.h"
#include "tests/cuda/fake/watch.h"

enum work_kind { WORK_RUN, WORK_MARK, WORK_WAIT };

struct work {
    struct work *next;
    enum work_kind kind;
    struct fake_work run;
    struct mark *mark; /* of MARK and WAIT */
    char token;        /* ThreadSanitizer's: what the host did before it enqueued this */
};

static struct CUstream_st *streams[FAKE_STREAMS_MAX];
static struct fake_clock host; /* what the host has waited for */

static void clock_join(struct fake_clock *clock, const struct fake_clock *other)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++)
        clock->at[i] = other->at[i] > clock->at[i] ? other->at[i] : clock->at[i];
}

void mark_drop(struct mark *mark)
{
    if (mark && --mark->users == 0)
        free(mark);
}

struct CUstream_st *stream_new(void)
{
    int slot = 0;
    while (slot < FAKE_STREAMS_MAX && streams[slot])
        slot++;
    if (slot == FAKE_STREAMS_MAX)
        return NULL;
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    insist(stream);
    stream->slot = slot;
    stream->device = fake.device;
    stream->last = &stream->first;
    stream->clock = host;
    stream->fiber = fiber_new();
    streams[slot] = stream;
    return stream;
}

bool fake_stream_knows(cudaStream_t stream)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (stream && streams[i] == stream)
            return true;
    }
    return false;
}

int fake_streams_live(void)
{
    int live = 0;
    for (int i = 0; i < FAKE_STREAMS_MAX; i++)
        live += streams[i] != NULL;
    return live;
}

/* The caller fills it in, then releases its token to the stream's thread. */
static struct work *add(struct CUstream_st *stream, enum work_kind kind)
{
    struct work *work = calloc(1, sizeof(*work));
    insist(work);
    work->kind = kind;
    *stream->last = work;
    stream->last = &work->next;
    clock_join(&stream->clock, &host);
    stream->clock.at[stream->slot]++;
    return work;
}

void stream_add(struct CUstream_st *stream, const struct fake_work *work)
{
    struct work *added = add(stream, WORK_RUN);
    added->run = *work;
    fiber_release(&added->token);
}

struct mark *stream_mark(struct CUstream_st *stream)
{
    struct mark *mark = calloc(1, sizeof(*mark));
    insist(mark);
    struct work *work = add(stream, WORK_MARK);
    mark->users = 2;
    mark->stream = stream->slot;
    mark->clock = stream->clock;
    work->mark = mark;
    fiber_release(&work->token);
    return mark;
}

void stream_wait(struct CUstream_st *stream, struct mark *mark)
{
    struct work *work = add(stream, WORK_WAIT);
    mark->users++;
    work->mark = mark;
    fiber_release(&work->token);
    clock_join(&stream->clock, &mark->clock);
}

/* On the stream's thread, as ThreadSanitizer sees it. */
static void run_on_stream(void *arg)
{
    struct work *work = arg;
    fiber_acquire(&work->token);
    if (work->kind == WORK_MARK)
        fiber_release(&work->mark->token);
    else if (work->kind == WORK_WAIT)
        fiber_acquire(&work->mark->token);
    else
        work->run.run(work->run.arg);
}

/* Of work that fails, and of all after it, nothing is run. */
static bool is_to_run(const struct work *work)
{
    if (work->kind != WORK_RUN)
        return true;
    fake.counts.works++;
    if (fake.counts.works == fake.options.fail_at)
        fake.sticky = cudaErrorIllegalAddress;
    return !fake.sticky;
}

static void run_first(struct CUstream_st *stream)
{
    struct work *work = stream->first;
    stream->first = work->next;
    if (!stream->first)
        stream->last = &stream->first;
    if (is_to_run(work)) {
        bool watched = work->kind == WORK_RUN && touches_begin(work->run.name);
        if (!watched)
            fake_memory_open();
        fiber_call(stream->fiber, run_on_stream, work);
        if (watched)
            touches_end();
    }
    if (work->kind == WORK_MARK)
        work->mark->done = true;
    fiber_hide_begin(); /* the stream's thread has read it */
    if (work->kind == WORK_RUN && work->run.drop)
        work->run.drop(work->run.arg);
    mark_drop(work->mark);
    free(work);
    fiber_hide_end();
}

static bool is_ready(const struct CUstream_st *stream)
{
    const struct work *work = stream ? stream->first : NULL;
    return work && (work->kind != WORK_WAIT || work->mark->done);
}

/* False: no stream can go on. */
static bool run_one(void)
{
    int ready[FAKE_STREAMS_MAX], n = 0;
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (is_ready(streams[i]))
            ready[n++] = i;
    }
    if (n)
        run_first(streams[ready[fake_random((uint64_t)n)]]);
    return n > 0;
}

/* A quarter of the seeds leaves all to the waits, another one runs all at once. */
void fake_run_some(void)
{
    uint64_t way = fake.options.seed % 4;
    if (way == 0)
        return;
    while ((way == 1 || fake_random(3) > 0) && run_one())
        ;
}

void host_wait(struct mark *mark)
{
    fake.counts.waits++;
    while (!mark->done) {
        if (!run_one())
            fake_found("the host waits for work that can never run");
    }
    fiber_acquire(&mark->token);
    clock_join(&host, &mark->clock);
    fake_copies_known(&host);
}

void fake_finish_stream(cudaStream_t stream)
{
    struct mark *mark = stream_mark(stream);
    host_wait(mark);
    mark_drop(mark);
}

void fake_finish_all(void)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (streams[i])
            fake_finish_stream(streams[i]);
    }
}

/* As the runtime's: its work is still done. */
void stream_free(struct CUstream_st *stream)
{
    fake_finish_stream(stream);
    streams[stream->slot] = NULL;
    fiber_free(stream->fiber);
    free(stream);
}
