/* Steps and metrics of a session: kept in a ring, sent in batches no more often than a beat,
 * dropped from the ring once they have arrived.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/str.h"
#include "libworker/session/session_rpc.h"
#include "proto/worker.pb-c.h"

enum {
    FLUSH_TIMEOUT_MS = 2000,
    PROGRESS_TIMEOUT_MS = 5000,
    METRICS_BATCH = 256, /* of one Progress: the agent's limit */
};

int64_t session_wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A Progress message and what it points to. */
struct batch {
    Muster__WorkerProgressRequest request;
    Muster__MetricSample samples[METRICS_BATCH];
    Muster__MetricSample *list[METRICS_BATCH], *own[METRICS_BATCH];
    struct session_metric metrics[METRICS_BATCH];
    struct wk_comm_status status;
    Muster__Wait wait;
    uint32_t ranks[sizeof(((struct wk_comm_status *)0)->waiting) / sizeof(int)];
};

/* Under lock. */
static void put_wait(struct session_rpc *s, struct batch *batch)
{
    struct wk_comm_status *status = &batch->status;
    size_t named = sizeof(batch->ranks) / sizeof(batch->ranks[0]);
    if (!s->wait.waiting_us)
        return;
    *status = s->wait;
    muster__wait__init(&batch->wait);
    batch->wait.communicator = status->name;
    batch->wait.operation = status->operation;
    batch->wait.sequence = status->sequence;
    batch->wait.bytes = status->bytes;
    batch->wait.waited_ms = (uint32_t)(status->waiting_us / 1000);
    batch->wait.ranks_count = (uint32_t)status->waiting_count;
    batch->wait.ranks = batch->ranks;
    for (size_t i = 0; i < named && i < batch->wait.ranks_count; i++)
        batch->ranks[batch->wait.n_ranks++] = (uint32_t)status->waiting[i];
    batch->request.wait = &batch->wait;
}

/* Under lock. Agents of older versions take all `metrics` for the job's series. */
static void put_metrics(struct session_rpc *s, struct batch *batch)
{
    Muster__WorkerProgressRequest *request = &batch->request;
    size_t n = s->metrics_count < METRICS_BATCH ? s->metrics_count : METRICS_BATCH;
    request->metrics = batch->list;
    request->numbers = batch->own;
    for (size_t i = 0; i < n; i++) {
        struct session_metric *metric = &batch->metrics[i];
        Muster__MetricSample *sample = &batch->samples[i];
        *metric = s->metrics[(s->metrics_first + i) % SESSION_METRICS_MAX];
        muster__metric_sample__init(sample);
        sample->job = s->job;
        sample->generation = s->generation;
        sample->step = (uint64_t)metric->step;
        sample->wall_ms = metric->wall_ms;
        sample->name = metric->name;
        sample->value = metric->value;
        if (metric->own)
            request->numbers[request->n_numbers++] = sample;
        else
            request->metrics[request->n_metrics++] = sample;
    }
    s->metrics_sending = n;
}

/* New data as a message; the metrics stay in the ring until it has arrived. NULL if another one is
 * in flight, the end has begun (unless this is its own), or memory is out. */
static struct batch *take_batch(struct session_rpc *s, bool last)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    muster__worker_progress_request__init(&batch->request);
    batch->request.job = s->job;
    batch->request.uid = s->uid;
    (void)pthread_mutex_lock(&s->lock);
    if (s->sending || s->closing != last) {
        (void)pthread_mutex_unlock(&s->lock);
        free(batch);
        return NULL;
    }
    batch->request.generation = s->generation;
    batch->request.step = (uint64_t)s->step.step;
    batch->request.total_steps = (uint64_t)s->step.total_steps;
    batch->request.step_seconds = s->step.seconds;
    batch->request.waited_seconds = s->step.waited_seconds;
    put_wait(s, batch);
    put_metrics(s, batch);
    s->sending = true;
    s->dirty = s->metrics_count > s->metrics_sending;
    (void)pthread_mutex_unlock(&s->lock);
    return batch;
}

static void beat(void *arg);

static void beat_at(struct session_rpc *s, int64_t due_ms)
{
    loop_timer_set(s->hub.loop, &s->beat_timer, due_ms, beat, s);
}

/* The Progress in flight is over; whether there is more to send. */
static bool settle_batch(struct session_rpc *s, bool arrived)
{
    (void)pthread_mutex_lock(&s->lock);
    if (arrived) {
        s->metrics_first = (s->metrics_first + s->metrics_sending) % SESSION_METRICS_MAX;
        s->metrics_count -= s->metrics_sending;
    } else {
        s->dirty = true;
    }
    s->metrics_sending = 0;
    s->sending = false;
    bool dirty = s->dirty;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    return dirty;
}

static void progress_done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct session_rpc *s = arg;
    (void)answer;
    bool dirty = settle_batch(s, err->code == 0);
    if (err->code == E_CANCELLED)
        return;
    (void)pthread_mutex_lock(&s->lock);
    bool full = s->metrics_count >= METRICS_BATCH;
    (void)pthread_mutex_unlock(&s->lock);
    if (dirty)
        beat_at(s, full && !err->code ? loop_now_ms(s->hub.loop) : s->sent_ms + s->beat_ms);
}

static void beat(void *arg)
{
    struct session_rpc *s = arg;
    struct batch *batch = take_batch(s, false);
    struct rpc_options options = {.timeout_ms = PROGRESS_TIMEOUT_MS};
    if (!batch)
        return;
    s->sent_ms = loop_now_ms(s->hub.loop);
    s->sent_generation = batch->request.generation;
    if (rpc_client_call(s->hub.client, &muster__worker_hub__descriptor, "Progress",
                        &batch->request.base, &options, progress_done, s, NULL))
        (void)settle_batch(s, false);
    free(batch);
}

void session_send_soon(void *arg)
{
    struct session_rpc *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    s->posted = false;
    /* The first step of a generation is what a recovery is measured by: it does not wait. */
    bool news = s->generation != s->sent_generation, sending = s->sending;
    (void)pthread_mutex_unlock(&s->lock);
    if (sending || (loop_timer_armed(&s->beat_timer) && !news))
        return;
    int64_t now_ms = loop_now_ms(s->hub.loop), due_ms = s->sent_ms + s->beat_ms;
    beat_at(s, !news && due_ms > now_ms ? due_ms : now_ms);
}

bool session_dirty(struct session_rpc *s)
{
    bool post = !s->posted;
    s->dirty = s->posted = true;
    return post;
}

void session_progress(struct session *session, const struct session_step *step)
{
    struct session_rpc *s = (struct session_rpc *)session;
    (void)pthread_mutex_lock(&s->lock);
    s->step = *step;
    s->wait.waiting_us = 0;
    bool post = session_dirty(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (post)
        loop_post(s->hub.loop, session_send_soon, s);
}

void session_metric(struct session *session, int64_t step, const char *name, double value)
{
    struct session_rpc *s = (struct session_rpc *)session;
    (void)pthread_mutex_lock(&s->lock);
    if (s->metrics_count == SESSION_METRICS_MAX) {
        s->metrics_first = (s->metrics_first + 1) % SESSION_METRICS_MAX;
        s->metrics_count--;
        s->metrics_sending -= s->metrics_sending > 0;
    }
    struct session_metric *metric =
        &s->metrics[(s->metrics_first + s->metrics_count++) % SESSION_METRICS_MAX];
    *metric = (struct session_metric){
        .step = step, .wall_ms = session_wall_ms(), .value = value, .own = s->rank != 0};
    (void)str_copy(metric->name, sizeof(metric->name), name);
    bool post = session_dirty(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (post)
        loop_post(s->hub.loop, session_send_soon, s);
}

/* Until the Progress in flight has arrived, or the time is up. */
static bool await_quiet(struct session_rpc *s, int64_t until_ms)
{
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    int rc = 0;
    (void)pthread_mutex_lock(&s->lock);
    s->closing = true;
    while (s->sending && !rc)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool rest = !s->sending && s->dirty;
    (void)pthread_mutex_unlock(&s->lock);
    return rest;
}

/* The last step and metrics, so that a job that ended is shown as ended. */
void session_flush(struct session_rpc *s)
{
    int64_t until_ms = session_wall_ms() + FLUSH_TIMEOUT_MS;
    struct rpc_options options = {.timeout_ms = FLUSH_TIMEOUT_MS};
    int rc = 0;
    while (!rc && await_quiet(s, until_ms) && session_wall_ms() < until_ms) {
        struct batch *batch = take_batch(s, true);
        ProtobufCMessage *answer = NULL;
        if (!batch)
            return;
        rc = hub_call(&s->hub, "Progress", &batch->request.base, &options, &answer, NULL);
        (void)settle_batch(s, !rc);
        rpc_message_free(answer);
        free(batch);
    }
}
