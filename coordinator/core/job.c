#include "coordinator/core/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/budget.h"
#include "coordinator/core/checkpoint.h"
#include "coordinator/core/channel_note.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/core/evict.h"
#include "coordinator/core/group.h"
#include "coordinator/core/job_ledger.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/move.h"
#include "coordinator/core/resize.h"
#include "coordinator/core/restart.h"
#include "coordinator/core/runtime.h"
#include "coordinator/core/scale.h"
#include "coordinator/core/spare.h"
#include "coordinator/core/stall_watch.h"
#include "coordinator/core/stop.h"
#include "coordinator/model/cluster_timers.h"
#include "coordinator/model/query.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/defrag.h"
#include "coordinator/scheduler/possible.h"

static struct job *new_job(struct step *step)
{
    struct job *job = calloc(1, sizeof(*job));
    insist(job);
    job->spec = spec_hold(step->event->job_submit.spec);
    job->sequence = cluster_next_sequence(step->cluster);
    (void)str_printf(job->id, sizeof(job->id), "j%llu", (unsigned long long)job->sequence);
    memcpy(job->secret, step->event->job_submit.secret, sizeof(job->secret));
    const char *user = step->event->job_submit.user;
    if (user && str_copy(job->user, sizeof(job->user), user))
        job->user[0] = 0;
    job->state = JOB_QUEUED;
    job->next_generation = job->next_uid = 1;
    job->submitted_wall_ms = step->wall_ms;
    job->loss = job->tokens_per_second = NAN;
    ledger_begin(&job->ledger, step->now_ms);
    reason_set(&job->reason, REASON_SUBMITTED, "accepted");
    return job;
}

/* A submit with a known key is answered with the job of that key, if it asks for the same. */
static bool answer_repeated(struct step *step, const char *key)
{
    const struct spec *spec = step->event->job_submit.spec;
    struct job *job = cluster_job_by_key(step->cluster, spec->tenant, key);
    if (!job)
        return false;
    if (strcmp(job->spec->json, spec->json) == 0) {
        step_answer_job(step, job, true);
        return true;
    }
    struct error err = {0};
    error_set(&err, E_FAILED_PRECONDITION, "this idempotency key submitted another job (%s)",
              job->id);
    error_hint(&err, "use a new key for a new job");
    step_refuse(step, &err);
    return true;
}

void job_submit(struct step *step)
{
    const char *key = step->event->job_submit.idempotency_key;
    struct error err = {0};
    bool keyed = key && key[0];
    if (keyed && strlen(key) >= sizeof((struct job *)0)->idempotency_key) {
        error_set(&err, E_INVALID_ARGUMENT, "the idempotency key is longer than %zu bytes",
                  sizeof((struct job *)0)->idempotency_key - 1);
        step_refuse(step, &err);
        return;
    }
    if (keyed && answer_repeated(step, key))
        return;
    const struct spec *spec = step->event->job_submit.spec;
    if (checkpoint_folder_free(step->cluster, spec, &err) ||
        scheduler_possible(step->cluster, spec, &err)) {
        step_refuse(step, &err);
        return;
    }
    struct job *job = new_job(step);
    if (keyed)
        (void)str_copy(job->idempotency_key, sizeof(job->idempotency_key), key);
    if (cluster_add_job(step->cluster, job, &err)) {
        step_refuse(step, &err);
        job_free(job);
        return;
    }
    struct record *record = step_record(step, "job_state", job, NULL, &job->reason);
    (void)str_copy(record->to, sizeof(record->to), job_state_name(job->state));
    cluster_job_moved(step->cluster, job, true);
    step_settle(step, job);
    step->wants_pass = true;
    step_answer_job(step, job, false);
}

void job_cancel(struct step *step)
{
    struct error err = {0};
    struct job *job = cluster_job(step->cluster, step->event->job_cancel.id);
    if (!job) {
        error_set(&err, E_NOT_FOUND, "there is no job '%s'", step->event->job_cancel.id);
        error_hint(&err, "`muster ps` lists them");
    } else if (job->state == JOB_SUCCEEDED || job->state == JOB_FAILED) {
        error_set(&err, E_FAILED_PRECONDITION, "job %s has already %s", job->id,
                  job_state_name(job->state));
    }
    if (err.code) {
        step_refuse(step, &err);
        return;
    }
    if (!job_state_ended(job->state) && !job->cancel_requested) {
        const char *why = step->event->job_cancel.reason, *user = step->event->job_cancel.user;
        struct reason reason;
        reason_set(&reason, REASON_CANCELLED, "asked to end%s%.64s%s%.300s",
                   user && user[0] ? " by " : "", user ? user : "", why && why[0] ? ": " : "",
                   why ? why : "");
        job->cancel_requested = true;
        if (job->state != JOB_STOPPING)
            job_stop(step, job, JOB_CANCELLED, &reason);
        step_settle(step, job);
    }
    step_answer_job(step, job, false);
}

/* Only a wish: what the agents find is output of the job soon after. */
void job_stacks(struct step *step)
{
    struct error err = {0};
    struct job *job = cluster_job(step->cluster, step->event->job_stacks);
    if (!job) {
        error_set(&err, E_NOT_FOUND, "there is no job '%s'", step->event->job_stacks);
        error_hint(&err, "`muster ps` lists them");
    } else if (!job_living_workers(job)) {
        error_set(&err, E_FAILED_PRECONDITION, "job %s is %s: none of its programs runs", job->id,
                  job_state_name(job->state));
    }
    if (err.code) {
        step_refuse(step, &err);
        return;
    }
    step_request_stacks(step, job);
    step_answer_job(step, job, false);
}

/* Channels are not part of the cluster's state: only the record of them is. */
void job_channel(struct step *step)
{
    const struct channel_note *note = step->event->job_channel;
    const struct job *job = cluster_job(step->cluster, note->job);
    struct error err = {0};
    struct reason reason;
    if (!job) {
        error_set(&err, E_NOT_FOUND, "there is no job '%s'", note->job);
        step_refuse(step, &err);
        return;
    }
    reason_set(&reason, note->ended ? REASON_CHANNEL_ENDED : REASON_CHANNEL_OPENED, "%s",
               note->text);
    reason.rank = note->rank;
    if (!note->quiet)
        step_record(step, reason.kind, job, note->node, &reason);
    step_answer_job(step, job, false);
}

static void settle_stopping(struct step *step, struct job *job)
{
    struct reason reason;
    if (!job_living_workers(job) && budget_forgive(step, job)) {
        reason = job->reason;
        job->stop_deadline_ms = 0;
        restart_again(step, job, &reason);
        return;
    }
    if (!job_living_workers(job)) {
        job_end(step, job);
        return;
    }
    if (!job->stop_deadline_ms || step->now_ms < job->stop_deadline_ms)
        return;
    job->stop_deadline_ms = 0;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (!worker_living(worker))
            continue;
        reason_set(&reason, REASON_STOP_OVERDUE, "rank %d on %s does not end (%.300s)",
                   worker->rank, worker->node, job->reason.text);
        reason_hint(&reason, "look at process %lld on that node", (long long)worker->pid);
        step_record(step, "stop_overdue", job, worker->node, &reason);
        return;
    }
}

static void take_earlier_set(int64_t *at_ms, int64_t candidate_ms)
{
    if (candidate_ms > 0 && candidate_ms < *at_ms)
        *at_ms = candidate_ms;
}

static int64_t wake_at(const struct job *job, int64_t now_ms)
{
    int64_t at_ms = INT64_MAX;
    if (job->state == JOB_STOPPING || job->state == JOB_PREEMPTING) {
        take_earlier_set(&at_ms, job->stop_deadline_ms);
    } else {
        take_earlier_set(&at_ms, job->runtime_deadline_ms);
        take_earlier_set(&at_ms, runtime_signal_at_ms(job));
        if (job->backoff_until_ms > now_ms)
            take_earlier_set(&at_ms, job->backoff_until_ms);
        if (job->state == JOB_RUNNING && job->grow_after_ms > now_ms)
            take_earlier_set(&at_ms, job->grow_after_ms);
        if (job->state == JOB_RUNNING && resize_due(job) > now_ms)
            take_earlier_set(&at_ms, resize_due(job));
        if (resize_silence_ends(job) > now_ms)
            take_earlier_set(&at_ms, resize_silence_ends(job));
        if (job->state == JOB_RUNNING)
            take_earlier_set(&at_ms, ledger_hangs_at_ms(&job->ledger));
        if (defrag_rest_ends(job) > now_ms) /* then a waiting job may need it to move */
            take_earlier_set(&at_ms, defrag_rest_ends(job));
        take_earlier_set(&at_ms, group_wake_at(job));
    }
    /* Due work was just done; if it is still due, look again, but not at once. */
    return at_ms <= now_ms ? now_ms + BEAT_MS : at_ms;
}

void job_settle(struct step *step, struct job *job)
{
    runtime_settle(step, job);
    stall_settle(step, job);
    switch (job->state) {
    case JOB_QUEUED:
        break;
    case JOB_STARTING:
    case JOB_RUNNING:
    case JOB_REFORMING:
        spare_settle(step, job);
        group_settle(step, job);
        scale_settle(step, job);
        break;
    case JOB_RESTARTING:
        restart_settle(step, job);
        break;
    case JOB_PREEMPTING:
        evict_settle(step, job);
        break;
    case JOB_STOPPING:
        settle_stopping(step, job);
        break;
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED:
        return;
    }
    if (!job_state_ended(job->state))
        cluster_wake_job(step->cluster, job, wake_at(job, step->now_ms));
}

void job_resumed(struct step *step, struct job *job)
{
    job->current.since_ms = job->forming.since_ms = step->now_ms;
    job->progress_at_ms = job->ledger.sign_ms = step->now_ms;
    move_resumed(job, step->now_ms);
    step_revisit(step, job);
}

/* Monotonic times of an earlier life are meaningless in this one, because the machine may have
 * restarted. */
void job_restored(struct step *step, struct job *job)
{
    int64_t now = step->now_ms;
    const struct spec *spec = job->spec;
    if (job->backoff_until_ms > now + spec->backoff_max_ms)
        job->backoff_until_ms = now + spec->backoff_max_ms;
    if (job->grow_after_ms > now + GROW_BACKOFF_MAX_MS)
        job->grow_after_ms = now + GROW_BACKOFF_MAX_MS;
    job->current.since_ms = job->forming.since_ms = now;
    job->progress_at_ms = now;
    move_resumed(job, now);
    /* Metrics are stored together with other changes, so these may be from an old generation. A
     * report replaces them, but not for a job that was already stalled when it was stored. */
    if (job->current.generation && !job->stalled_wall_ms)
        job->loss = job->tokens_per_second = NAN;
    job_ledger_restored(job, now, step->wall_ms);
    if (job->broken_at_ms)
        job->broken_at_ms = now;
    if (job->stop_deadline_ms)
        job->stop_deadline_ms = now + job->spec->grace_ms + STOP_SLACK_MS;
    runtime_restored(step, job);
    if (job->state == JOB_RUNNING && !job->running_wall_ms) /* stored before this field existed */
        job->running_wall_ms = job->started_wall_ms;
    cluster_job_moved(step->cluster, job, job_state_waits(job->state));
    step_settle(step, job);
}
