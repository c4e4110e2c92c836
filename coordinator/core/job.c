/* One job.
 *
 *              placed            all joined             growth opened, or a failure
 *   queued ─────────► starting ───────────► running ◄────────────────────► reforming
 *                      ▲   │                   │                               │
 *               placed │   │ failure           │ failure that nobody survives  │
 *                      │   ▼                   ▼                               │
 *                      restarting ◄────────────────────────────────────────────┘
 *
 *   any of these ──► stopping (cancelled, out of restarts, out of time) ──► failed | cancelled
 *   stopping ──► restarting: its program had failed, and then it turns out that a rank was ended
 *   from outside before (budget.c)
 *   starting, running, reforming ──► succeeded when all ranks exit 0 (by stopping if others live)
 *
 *   starting, running, reforming ──► preempting (saves while its grace lasts) ──► queued:
 *   it gave way to another job and waits again
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/internal.h"
#include "coordinator/scheduler/defrag.h"

#define BIT(state) (1u << JOB_##state)
static const unsigned allowed[] = {
    [JOB_QUEUED] = BIT(STARTING) | BIT(FAILED) | BIT(CANCELLED),
    [JOB_STARTING] =
        BIT(RUNNING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_RUNNING] =
        BIT(REFORMING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_REFORMING] =
        BIT(RUNNING) | BIT(RESTARTING) | BIT(PREEMPTING) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_RESTARTING] = BIT(STARTING) | BIT(STOPPING),
    [JOB_PREEMPTING] = BIT(QUEUED) | BIT(STOPPING) | BIT(SUCCEEDED),
    [JOB_STOPPING] = BIT(SUCCEEDED) | BIT(FAILED) | BIT(CANCELLED) | BIT(RESTARTING),
    [JOB_SUCCEEDED] = 0,
    [JOB_FAILED] = 0,
    [JOB_CANCELLED] = 0,
};
#undef BIT

static bool waits(enum job_state state)
{
    return state == JOB_QUEUED || state == JOB_RESTARTING;
}

void job_set_state(struct step *step, struct job *job, enum job_state state,
                   const struct reason *reason)
{
    insist(allowed[job->state] >> state & 1);
    struct record *record = step_record(step, "job_state", job, reason->node, reason);
    (void)str_copy(record->from, sizeof(record->from), job_state_name(job->state));
    (void)str_copy(record->to, sizeof(record->to), job_state_name(state));
    job->state = state;
    job->reason = *reason;
    if (state != JOB_RUNNING)
        stall_end(step, job);
    if (job_state_ended(state))
        job->ended_wall_ms = step->wall_ms;
    cluster_job_moved(step->cluster, job, waits(state));
    if (waits(state))
        scale_apply(step, job);
    step_settle(step, job);
}

void job_set_reason(struct step *step, struct job *job, const struct reason *reason)
{
    bool same_kind = strcmp(job->reason.kind, reason->kind) == 0;
    if (same_kind && strcmp(job->reason.text, reason->text) == 0)
        return;
    job->reason = *reason;
    if (same_kind) /* the blocking jobs change often; only the kind must survive a restart */
        step_show(step, job);
    else
        step_store(step, job);
}

static struct job *new_job(struct step *step)
{
    struct job *job = calloc(1, sizeof(*job));
    insist(job);
    job->spec = spec_hold(step->event->job_submit.spec);
    job->sequence = cluster_next_sequence(step->cluster);
    (void)str_printf(job->id, sizeof(job->id), "j%llu", (unsigned long long)job->sequence);
    memcpy(job->secret, step->event->job_submit.secret, sizeof(job->secret));
    const char *user = step->event->job_submit.user;
    if (user && str_copy(job->user, sizeof(job->user), user) < 0)
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
    if (checkpoint_folder_free(step->cluster, spec, &err) < 0 ||
        scheduler_possible(step->cluster, spec, &err) < 0) {
        step_refuse(step, &err);
        return;
    }
    struct job *job = new_job(step);
    if (keyed)
        (void)str_copy(job->idempotency_key, sizeof(job->idempotency_key), key);
    if (cluster_add_job(step->cluster, job, &err) < 0) {
        step_refuse(step, &err);
        job_free(job);
        return;
    }
    struct record *record = step_record(step, "job_state", job, NULL, &job->reason);
    (void)str_copy(record->to, sizeof(record->to), job_state_name(job->state));
    cluster_job_moved(step->cluster, job, true);
    step_settle(step, job);
    step->place = true;
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
        const char *why = step->event->job_cancel.reason;
        struct reason reason;
        reason_set(&reason, REASON_CANCELLED, "asked to end%s%.400s", why && why[0] ? ": " : "",
                   why ? why : "");
        job->cancel_requested = true;
        if (job->state != JOB_STOPPING)
            job_stop(step, job, JOB_CANCELLED, &reason);
        step_settle(step, job);
    }
    step_answer_job(step, job, false);
}

static int exit_code_of(const struct job *job, enum job_state ending)
{
    enum { CANCELLED_CODE = 130 }; /* as a shell reports Ctrl-C */
    if (ending == JOB_SUCCEEDED)
        return 0;
    if (ending == JOB_CANCELLED)
        return CANCELLED_CODE;
    return job->exit_code ? job->exit_code : 1;
}

static void end(struct step *step, struct job *job)
{
    struct reason reason = job->reason;
    enum job_state ending = job->ending;
    job->exit_code = exit_code_of(job, ending);
    job_set_state(step, job, ending, &reason);
    step->place = true;
}

void job_stop(struct step *step, struct job *job, enum job_state ending,
              const struct reason *reason)
{
    job->ending = ending;
    for (int i = 0; i < job->workers_count; i++)
        worker_stop(step, job, &job->workers[i]);
    group_clear(step->cluster, job, &job->forming);
    bool idle = job_living(job) == 0;
    if (idle &&
        (job->state == JOB_QUEUED || (ending == JOB_SUCCEEDED && job->state != JOB_RESTARTING))) {
        job->reason = *reason;
        end(step, job);
        return;
    }
    job->stop_deadline_ms = step->now_ms + STOP_GRACE_MS + STOP_SLACK_MS;
    job->kill_due_ms = step->now_ms + STOP_GRACE_MS;
    job_set_state(step, job, JOB_STOPPING, reason);
}

static void settle_stopping(struct step *step, struct job *job)
{
    struct reason reason;
    if (job_living(job) == 0 && budget_forgive(step, job)) {
        reason = job->reason;
        job->stop_deadline_ms = 0;
        restart_again(step, job, &reason);
        return;
    }
    if (job_living(job) == 0) {
        end(step, job);
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

static void earlier(int64_t *at_ms, int64_t candidate_ms)
{
    if (candidate_ms > 0 && candidate_ms < *at_ms)
        *at_ms = candidate_ms;
}

static int64_t wake_at(const struct job *job, int64_t now_ms)
{
    int64_t at_ms = INT64_MAX;
    if (job->state == JOB_STOPPING || job->state == JOB_PREEMPTING) {
        earlier(&at_ms, job->stop_deadline_ms);
    } else {
        earlier(&at_ms, job->runtime_deadline_ms);
        if (job->backoff_until_ms > now_ms)
            earlier(&at_ms, job->backoff_until_ms);
        if (job->state == JOB_RUNNING && job->grow_after_ms > now_ms)
            earlier(&at_ms, job->grow_after_ms);
        if (job->state == JOB_RUNNING && resize_due(job) > now_ms)
            earlier(&at_ms, resize_due(job));
        if (job->state == JOB_RUNNING)
            earlier(&at_ms, ledger_hangs_at_ms(&job->ledger));
        if (defrag_rest_ends(job) > now_ms) /* then a waiting job may need it to move */
            earlier(&at_ms, defrag_rest_ends(job));
        earlier(&at_ms, group_wake_at(job));
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
        preempt_settle(step, job);
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

bool job_gang_ends(const struct job *job)
{
    return job->state == JOB_STOPPING || job->state == JOB_PREEMPTING ||
           job->state == JOB_RESTARTING;
}

void job_resumed(struct step *step, struct job *job)
{
    job->current.since_ms = job->forming.since_ms = step->now_ms;
    job->progress_at_ms = job->ledger.sign_ms = step->now_ms;
    step_look(step, job);
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
    /* Metrics are stored together with other changes, so these may be from an old generation. A
     * report replaces them, but not for a job that was already stalled when it was stored. */
    if (job->current.generation && !job->stalled_wall_ms)
        job->loss = job->tokens_per_second = NAN;
    ledger_restored(job, now, step->wall_ms);
    if (job->broken_at_ms)
        job->broken_at_ms = now;
    if (job->stop_deadline_ms)
        job->stop_deadline_ms = now + STOP_GRACE_MS + STOP_SLACK_MS;
    runtime_restored(step, job);
    if (job->state == JOB_RUNNING && !job->running_wall_ms) /* stored before this field existed */
        job->running_wall_ms = job->started_wall_ms;
    cluster_job_moved(step->cluster, job, waits(job->state));
    step_settle(step, job);
}
