#include "agent/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "common/rpc/message.h"

int outbox_init(struct outbox *outbox, struct launcher *launcher, struct error *err)
{
    memset(outbox, 0, sizeof(*outbox));
    outbox->launcher = launcher;
    outbox->metrics = calloc(OUTBOX_METRICS_MAX, sizeof(*outbox->metrics));
    return outbox->metrics ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for metrics");
}

void outbox_fini(struct outbox *outbox)
{
    (void)outbox_packed(outbox, false);
    outbox_texts_fini(&outbox->texts);
    while (outbox->workers) {
        struct outbox_worker *next = outbox->workers->link;
        free(outbox->workers);
        outbox->workers = next;
    }
    free(outbox->metrics);
    outbox->metrics = NULL;
}

static bool same_worker(const struct worker_key *a, const struct worker_key *b)
{
    return a->uid == b->uid && strcmp(a->job, b->job) == 0;
}

/* NULL only without memory: then its output waits for the next notice. */
static struct outbox_worker *entry(struct outbox *outbox, const struct worker_key *key)
{
    struct outbox_worker **at = &outbox->workers;
    for (; *at; at = &(*at)->link)
        if (same_worker(&(*at)->key, key))
            return *at;
    *at = calloc(1, sizeof(**at));
    if (*at)
        (*at)->key = *key;
    return *at;
}

void outbox_joined(struct outbox *outbox, const struct worker_key *key,
                   const struct outbox_place *place)
{
    struct outbox_worker *worker = entry(outbox, key);
    if (!worker || worker->now.generation == place->generation)
        return;
    worker->before = worker->now;
    worker->now = *place;
}

void outbox_output(struct outbox *outbox, const struct worker_key *key)
{
    struct outbox_worker *worker = entry(outbox, key);
    if (worker)
        worker->more = true;
}

void outbox_ended(struct outbox *outbox, const struct worker_key *key)
{
    struct outbox_worker *worker = entry(outbox, key);
    if (worker)
        worker->ended = worker->more = true;
}

void outbox_forget(struct outbox *outbox, const struct worker_key *key)
{
    for (struct outbox_worker **at = &outbox->workers; *at; at = &(*at)->link)
        if (same_worker(&(*at)->key, key)) {
            struct outbox_worker *gone = *at;
            *at = gone->link;
            free(gone);
            return;
        }
}

void outbox_metric(struct outbox *outbox, const struct metric *metric)
{
    if (outbox->metrics_end - outbox->metrics_first == OUTBOX_METRICS_MAX) {
        outbox->metrics_first++;
        outbox->metrics_dropped++;
    }
    outbox->metrics[outbox->metrics_end++ % OUTBOX_METRICS_MAX] = *metric;
}

bool outbox_ready(const struct outbox *outbox)
{
    if (outbox->in_flight)
        return false;
    if (outbox->texts.first)
        return true;
    for (const struct outbox_worker *w = outbox->workers; w; w = w->link)
        if (w->more)
            return true;
    return outbox->metrics_end > outbox->metrics_first;
}

/* The place that the worker had when it wrote the line. */
static void set_place(const struct outbox_worker *worker, const struct output_batch *batch,
                      Muster__LogLine *line)
{
    const struct outbox_place *place =
        line->wall_ms >= worker->now.since_wall_ms ? &worker->now : &worker->before;
    line->rank = place->generation ? place->rank : batch->rank;
    line->generation = place->generation ? place->generation : batch->generation;
}

static Muster__LogChunk *chunk_of(const struct outbox_worker *worker,
                                  const struct output_batch *batch, struct arena *arena)
{
    size_t count = (size_t)batch->count;
    Muster__LogChunk *chunk = arena_alloc(arena, sizeof(*chunk));
    Muster__LogLine *lines = arena_array(arena, count + 1, sizeof(*lines));
    if (!chunk || !lines)
        return NULL;
    muster__log_chunk__init(chunk);
    chunk->lines = arena_pointers(arena, count + 1);
    if (!chunk->lines)
        return NULL;
    chunk->job = rpc_text(worker->key.job);
    chunk->uid = worker->key.uid;
    chunk->rank = batch->rank;
    chunk->generation = batch->generation;
    chunk->offset = batch->first;
    chunk->n_lines = count;
    chunk->last = batch->complete;
    for (size_t i = 0; i < count; i++) {
        muster__log_line__init(&lines[i]);
        lines[i].wall_ms = batch->lines[i].wall_ms;
        set_place(worker, batch, &lines[i]);
        lines[i].is_stderr = batch->lines[i].is_stderr;
        lines[i].text = rpc_text(batch->lines[i].text);
        chunk->lines[i] = &lines[i];
    }
    return chunk;
}

/* Bytes of text it added. */
static size_t fill_one(struct outbox *outbox, struct outbox_worker *worker, size_t budget,
                       struct arena *arena, Muster__NodeReport *report)
{
    struct output_batch batch = {0};
    size_t bytes = 0;
    struct launcher *launcher = outbox->launcher;
    worker->more = false;
    if (launcher->read_output(launcher->self, &worker->key, budget, &batch, NULL))
        return 0;
    bool tells = batch.count > 0 || batch.complete; /* at the least that there is no more */
    Muster__LogChunk *chunk = tells ? chunk_of(worker, &batch, arena) : NULL;
    if (tells && !chunk) {
        output_batch_fini(&batch);
        worker->more = true;
        return budget; /* the arena is full */
    }
    for (int i = 0; i < batch.count; i++)
        bytes += strlen(batch.lines[i].text);
    /* Did it stop because no more fitted? Then there may be more. */
    worker->more = !batch.complete && (batch.count == OUTPUT_BATCH_LINES_MAX ||
                                       bytes + 3 * OUTPUT_LINE_MAX_BYTES >= budget);
    worker->in_flight = tells;
    worker->next = batch.first + (uint64_t)batch.count;
    worker->complete = batch.complete;
    if (chunk)
        report->logs[report->n_logs++] = chunk;
    outbox->batches[outbox->batches_count++] = batch;
    return bytes;
}

static void fill_logs(struct outbox *outbox, struct arena *arena, Muster__NodeReport *report)
{
    size_t left = OUTBOX_LOG_BYTES;
    report->logs = arena_pointers(arena, OUTBOX_CHUNKS_MAX + OUTBOX_TEXTS_REPORT_MAX);
    if (!report->logs)
        return;
    for (struct outbox_worker *w = outbox->workers;
         w && left > 0 && outbox->batches_count < OUTBOX_CHUNKS_MAX; w = w->link) {
        if (!w->more)
            continue;
        size_t bytes = fill_one(outbox, w, left, arena, report);
        left = bytes < left ? left - bytes : 0;
    }
    /* The first one is the last next time, so that a worker with much output does not block the
     * others.
     */
    if (outbox->workers && outbox->workers->link) {
        struct outbox_worker *first = outbox->workers, *last = first;
        outbox->workers = first->link;
        while (last->link)
            last = last->link;
        last->link = first;
        first->link = NULL;
    }
}

static void fill_metrics(struct outbox *outbox, struct arena *arena, Muster__NodeReport *report)
{
    uint64_t count = outbox->metrics_end - outbox->metrics_first;
    if (count > OUTBOX_METRICS_PER_REPORT)
        count = OUTBOX_METRICS_PER_REPORT;
    Muster__MetricSample *samples = arena_array(arena, count + 1, sizeof(*samples));
    report->metrics = arena_pointers(arena, count + 1);
    if (!samples || !report->metrics)
        return;
    for (uint64_t i = 0; i < count; i++) {
        struct metric *metric = &outbox->metrics[(outbox->metrics_first + i) % OUTBOX_METRICS_MAX];
        muster__metric_sample__init(&samples[i]);
        samples[i].job = metric->job;
        samples[i].name = metric->name;
        samples[i].generation = metric->generation;
        samples[i].step = metric->step;
        samples[i].wall_ms = metric->wall_ms;
        samples[i].value = metric->value;
        report->metrics[i] = &samples[i];
    }
    report->n_metrics = count;
    outbox->metrics_sent = outbox->metrics_first + count;
}

void outbox_fill(struct outbox *outbox, struct arena *arena, Muster__NodeReport *report)
{
    if (outbox->in_flight)
        return;
    outbox->metrics_sent = outbox->metrics_first;
    fill_logs(outbox, arena, report);
    outbox_texts_fill(&outbox->texts, arena, report);
    fill_metrics(outbox, arena, report);
}

bool outbox_packed(struct outbox *outbox, bool sent)
{
    if (outbox->in_flight)
        return false; /* the report that was packed carries nothing of ours */
    bool carries = outbox->metrics_sent > outbox->metrics_first;
    for (struct outbox_worker *w = outbox->workers; w; w = w->link)
        carries = carries || w->in_flight;
    carries = carries || outbox_texts_in_flight(&outbox->texts);
    for (int i = 0; i < outbox->batches_count; i++)
        output_batch_fini(&outbox->batches[i]);
    outbox->batches_count = 0;
    outbox->in_flight = carries;
    if (carries && !sent)
        outbox_done(outbox, false, NULL, NULL);
    return carries && sent;
}

void outbox_done(struct outbox *outbox, bool acknowledged,
                 void (*shipped)(void *arg, const struct worker_key *key), void *arg)
{
    struct launcher *launcher = outbox->launcher;
    outbox->in_flight = false;
    if (acknowledged && outbox->metrics_sent > outbox->metrics_first)
        outbox->metrics_first = outbox->metrics_sent;
    outbox_texts_done(&outbox->texts, acknowledged);
    for (struct outbox_worker *w = outbox->workers, *after; w; w = after) {
        after = w->link;
        if (!w->in_flight)
            continue;
        w->in_flight = false;
        if (!acknowledged) {
            w->more = true;
            continue;
        }
        launcher->acknowledge(launcher->self, &w->key, w->next);
        if (w->complete && w->ended) {
            struct worker_key key = w->key;
            outbox_forget(outbox, &key);
            shipped(arg, &key);
        }
    }
}
