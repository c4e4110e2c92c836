#include "agent/link/report_state.h"

#include <string.h>

#include "common/base/str.h"

const struct agent_worker *reporter_worker(const struct reporter *r, struct error *err)
{
    const struct report_events *events = &r->all->events;
    const struct agent_worker *worker = events->worker(events->arg, &r->key);
    if (!worker || worker->state == AGENT_WORKER_EXITED) {
        error_set(err, E_ABORTED, "this worker has ended");
        return NULL;
    }
    if (!worker->assignment) {
        error_set(err, E_UNAVAILABLE, "this agent has not heard from the coordinator yet");
        return NULL;
    }
    return worker;
}

uint64_t reporter_generation(const struct agent_worker *worker)
{
    return worker->memory.generation ? worker->memory.generation : worker->assignment->generation;
}

static const char *stop_reason(const struct assignment *assignment)
{
    if (!assignment->stop)
        return "this worker is not wanted on this node any more";
    return assignment->stop_reason[0] ? assignment->stop_reason
                                      : "the coordinator asks this worker to stop";
}

static struct report_stop stop_of(const struct reporter *r, const struct agent_worker *worker)
{
    return (struct report_stop){.stop = worker->state == AGENT_WORKER_STOPPING,
                                .grace_ms = worker->kill_at_ms - loop_now_ms(r->all->loop),
                                .reason = stop_reason(worker->assignment)};
}

void reporter_committed(struct reporter *r, const char *path, uint64_t step)
{
    struct error err = {0};
    const struct agent_worker *worker = reporter_worker(r, &err);
    (void)str_copy(r->latest, sizeof(r->latest), path);
    (void)str_copy(r->before_latest, sizeof(r->before_latest),
                   worker ? worker->assignment->resume_from : "");
    r->latest_step = step;
}

/* The newest checkpoint of the job is in the assignment, which arrives a little later than the
 * answer to a commit of this worker. */
static bool has_newest(const struct reporter *r, const struct assignment *assignment)
{
    return r->latest[0] && strcmp(assignment->resume_from, r->before_latest) == 0;
}

/* Where a job without a checkpoint of its own starts, "" if that is at step 0. The newest of its
 * folder, `latest`, is what a program looks for itself. */
static const char *start_of(const struct assignment *assignment)
{
    const char *path = assignment_training(assignment, "resume_from");
    return path && strcmp(path, "latest") != 0 ? path : "";
}

struct report_place reporter_place(const struct reporter *r, const struct agent_worker *worker)
{
    const struct assignment *assignment = worker->assignment;
    bool newest = has_newest(r, assignment), own = newest || assignment->resume_from[0];
    const char *known = newest ? r->latest : assignment->resume_from;
    return (struct report_place){
        .assignment = assignment,
        .generation = reporter_generation(worker),
        .latest = own ? known : start_of(assignment),
        .has_latest_step = own,
        .latest_step = newest ? r->latest_step : assignment->resume_step,
        .stop = stop_of(r, worker),
        .beat_ms = REPORT_BEAT_MS,
        .line_bytes = LINES_BYTES,
    };
}

void reporter_drop(struct reporter *r, uint64_t count)
{
    r->dropped += count;
    r->dirty = true;
}

void reporter_say(struct reporter *r, struct lines_peer *peer, struct buf *out)
{
    if (buf_failed(out) || !lines_send(peer, buf_cstr(out), out->size))
        reporter_drop(r, 1);
}

void reporter_fail(struct reporter *r, struct lines_peer *peer, int64_t id, const struct error *err)
{
    struct buf out;
    struct report_peer *of = peer ? *lines_data(peer) : NULL;
    int64_t now_ms = loop_now_ms(r->all->loop);
    if (!peer ||
        (id < 0 && of && of->told_error_ms && now_ms < of->told_error_ms + REPORT_ERROR_MS))
        return;
    if (id < 0 && of)
        of->told_error_ms = now_ms;
    buf_init(&out, LINES_BYTES);
    report_open(&out, id);
    report_put_error(&out, err);
    report_close(&out);
    reporter_say(r, peer, &out);
    buf_fini(&out);
}

void reporter_done(struct reporter *r, struct lines_peer *peer, int64_t id)
{
    struct buf out;
    if (!peer || id < 0)
        return;
    buf_init(&out, LINES_BYTES);
    report_open(&out, id);
    report_close(&out);
    reporter_say(r, peer, &out);
    buf_fini(&out);
}
