#include "coordinator/retention.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/env/env.h"
#include "coordinator/api_rpc/job_data.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/forgotten_use.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/tenant.h"

enum { DAY_MS = 86400000 };

static void on_time(void *arg)
{
    struct retention *retention = arg;
    retention->due = true;
}

static void check_again_in(struct retention *retention, int64_t in_ms)
{
    loop_timer_set(retention->loop, &retention->timer, loop_now_ms(retention->loop) + in_ms,
                   on_time, retention);
}

int64_t retention_wall_ms(const struct retention *retention)
{
    return retention->env->clock.wall_ms(retention->env->clock.self);
}

static void doubt_ages(struct retention *retention, int64_t jump_ms)
{
    retention->ages_after_ms = loop_now_ms(retention->loop) + RETENTION_DOUBT_MS;
    log_warn(retention->log, "the wall clock jumped: nothing is forgotten by age for an hour",
             log_int("jump_ms", jump_ms));
}

static void watch_clock(struct retention *retention)
{
    int64_t offset_ms = retention_wall_ms(retention) - loop_now_ms(retention->loop);
    int64_t jump_ms = offset_ms - retention->clock_offset_ms;
    retention->clock_offset_ms = offset_ms;
    if (jump_ms > RETENTION_JUMP_MS || jump_ms < -RETENTION_JUMP_MS)
        doubt_ages(retention, jump_ms);
}

bool retention_ages_count(struct retention *retention)
{
    watch_clock(retention);
    return loop_now_ms(retention->loop) >= retention->ages_after_ms;
}

static void note_wall_time(void *arg, const struct store_event *event)
{
    *(int64_t *)arg = event->record.wall_ms;
}

void retention_compare_clock(struct retention *retention)
{
    const struct store_events_query query = {.limit = 1, .newest = true};
    int64_t newest_ms = 0;
    if (retention->store->verbs->list_events(retention->store, &query, note_wall_time, &newest_ms,
                                             NULL) < 0 ||
        newest_ms == 0)
        return;
    int64_t since_ms = retention_wall_ms(retention) - newest_ms;
    if (since_ms > RETENTION_AWAY_MS || since_ms < -RETENTION_JUMP_MS)
        doubt_ages(retention, since_ms);
}

void retention_start(struct retention *retention)
{
    if (!retention->keep_jobs)
        retention->keep_jobs = RETENTION_KEEP_JOBS;
    if (!retention->keep_ms)
        retention->keep_ms = (int64_t)RETENTION_KEEP_DAYS * DAY_MS;
    retention->clock_offset_ms = retention_wall_ms(retention) - loop_now_ms(retention->loop);
    check_again_in(retention, RETENTION_PAUSE_MS);
}

void retention_fini(struct retention *retention)
{
    if (retention->loop)
        loop_timer_cancel(retention->loop, &retention->timer);
    free(retention->names);
    retention->names = NULL;
}

static bool has_living_worker(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED)
            return true;
    return false;
}

/* A job that never started has no information: it is forgotten before those that ran. */
static bool ends_before(const struct job *a, const struct job *b)
{
    if ((a->started_wall_ms == 0) != (b->started_wall_ms == 0))
        return a->started_wall_ms == 0;
    return a->ended_wall_ms < b->ended_wall_ms;
}

/* Ended jobs that can be forgotten, in order, at most `max`; of one tenant or (NULL) of all. */
static int ended_first(const struct cluster *cluster, const struct tenant *tenant,
                       const struct job **ret, int max)
{
    const struct job *newest = cluster_last_job(cluster);
    int count = 0;
    for (const struct job *job = cluster_first_job(cluster); job && job != newest;
         job = cluster_next_job(cluster, job)) {
        if (!job_state_ended(job->state) || (tenant && job->tenant != tenant) ||
            has_living_worker(job))
            continue;
        int at = count < max ? count++ : max;
        for (; at > 0 && ends_before(job, ret[at - 1]); at--)
            if (at < max)
                ret[at] = ret[at - 1];
        if (at < max)
            ret[at] = job;
    }
    return count;
}

/* Number of a tenant's ended jobs above its quota; too many bytes of specs count as a batch. */
static int beyond_of(struct retention *retention, const struct tenant *tenant)
{
    int keep = service_keep_jobs(retention->service, tenant->name, retention->keep_jobs);
    int beyond = tenant->ended_jobs - keep;
    if (beyond <= 0 &&
        tenant->ended_spec_bytes > service_spec_quota(retention->service, tenant->name))
        beyond = RETENTION_BATCH;
    return beyond;
}

static int add_first(struct retention *retention, const struct tenant *tenant, int beyond,
                     uint64_t *ret, int max)
{
    const struct job *jobs[RETENTION_BATCH];
    int ended = beyond > 0 && max > 0 ? ended_first(retention->cluster, tenant, jobs, max) : 0;
    int count = 0;
    for (; count < ended && count < beyond; count++)
        ret[count] = jobs[count]->sequence;
    return count;
}

static int add_aged(struct retention *retention, uint64_t *ret, int max)
{
    const struct job *jobs[RETENTION_BATCH];
    if (loop_now_ms(retention->loop) < retention->ages_after_ms)
        return 0;
    int64_t before_ms = retention_wall_ms(retention) - retention->keep_ms;
    int count = 0, ended = ended_first(retention->cluster, NULL, jobs, max);
    for (int i = 0; i < ended; i++)
        if (jobs[i]->ended_wall_ms < before_ms)
            ret[count++] = jobs[i]->sequence;
    return count;
}

/* The jobs to forget, at most `max`. Each tenant's own are counted, so that one tenant's flood does
 * not displace another's. Only if the cluster has too many in all, the tenant with the most loses
 * some. The order is by end, not by number: a job that ran for weeks beside thousands of short ones
 * is news when it ends. */
static int choose_jobs(struct retention *retention, uint64_t *ret, int max)
{
    const struct cluster *cluster = retention->cluster;
    const struct tenant *largest = NULL;
    int count = 0, ended = 0;
    for (const struct tenant *tenant = cluster_first_tenant(cluster); tenant;
         tenant = cluster_next_tenant(cluster, tenant)) {
        count +=
            add_first(retention, tenant, beyond_of(retention, tenant), ret + count, max - count);
        ended += tenant->ended_jobs;
        if (!largest || tenant->ended_jobs > largest->ended_jobs)
            largest = tenant;
    }
    if (count == 0)
        count = add_first(retention, largest, ended - RETENTION_ALL_MAX, ret, max);
    return count ? count : add_aged(retention, ret, max);
}

static int forget_rows(struct retention *retention, struct job *const *jobs, int count,
                       int64_t wall_ms, struct error *err)
{
    const struct store_verbs *verbs = retention->store->verbs;
    int rc = verbs->begin(retention->store, err);
    if (!rc)
        rc = forgotten_use_put(retention->store, jobs, count, wall_ms, err);
    for (int i = 0; !rc && i < count; i++)
        rc = verbs->forget_job(retention->store, jobs[i]->sequence, err);
    if (!rc)
        rc = verbs->commit(retention->store, err);
    if (rc)
        verbs->rollback(retention->store);
    return rc;
}

/* On failure nothing was forgotten. */
static int forget_jobs(struct retention *retention, const uint64_t *sequences, int count,
                       struct error *err)
{
    struct job *jobs[RETENTION_BATCH];
    char id[JOB_ID_MAX + 1];
    int64_t at_ms = retention_wall_ms(retention);
    for (int i = 0; i < count; i++) {
        (void)str_printf(id, sizeof(id), "j%llu", (unsigned long long)sequences[i]);
        jobs[i] = cluster_job(retention->cluster, id);
    }
    int rc = count ? forget_rows(retention, jobs, count, at_ms, err) : 0;
    for (int i = 0; !rc && i < count; i++) {
        (void)str_copy(id, sizeof(id), jobs[i]->id);
        tenant_charge_forgotten(jobs[i]->tenant, job_use(jobs[i], at_ms), at_ms);
        cluster_remove_job(retention->cluster, jobs[i]);
        service_forget_job(retention->service, id);
    }
    return rc;
}

/* Remove output and series of the jobs that ended first, of tenants above their quota. */
static void trim_output(struct retention *retention)
{
    int trimmed = 0;
    for (const struct tenant *tenant = cluster_first_tenant(retention->cluster); tenant;
         tenant = cluster_next_tenant(retention->cluster, tenant)) {
        if (!service_over_quota(retention->service, tenant->name))
            continue;
        for (const struct job *job = cluster_first_job(retention->cluster);
             job && trimmed < RETENTION_BATCH &&
             service_over_quota(retention->service, tenant->name);
             job = cluster_next_job(retention->cluster, job)) {
            if (job->tenant != tenant || !job_state_ended(job->state) ||
                !service_has_data(retention->service, job))
                continue;
            service_forget_output(retention->service, job->id);
            trimmed++;
        }
    }
}

/* Measure what is kept of jobs from before this start, a batch in each pass. */
static bool measure_batch(struct retention *retention)
{
    const struct job *job = cluster_job_from(retention->cluster, retention->measured + 1);
    for (int i = 0; job && i < RETENTION_BATCH;
         i++, job = cluster_next_job(retention->cluster, job)) {
        service_measure_kept(retention->service, job);
        retention->measured = job->sequence;
    }
    return job;
}

/* Remove output of unknown jobs, which a crash left between a row and its files. */
static bool remove_stray_output(struct retention *retention)
{
    char path[PATH_MAX];
    struct disk *disk = &retention->env->disk;
    if (!retention->swept) {
        retention->swept = true;
        if (!retention->data_dir ||
            str_printf(path, sizeof(path), "%s/logs", retention->data_dir) ||
            disk->list(disk->self, path, &retention->names, NULL) < 0)
            retention->names = NULL;
    }
    for (int i = 0; retention->names && i < RETENTION_BATCH; i++) {
        const char *name = retention->names[retention->next_name];
        if (!name) {
            free(retention->names);
            retention->names = NULL;
        } else {
            if (!cluster_job(retention->cluster, name))
                service_forget_job(retention->service, name);
            retention->next_name++;
        }
    }
    return retention->names;
}

int retention_turn_end(struct retention *retention, struct cluster *cluster, struct error *err)
{
    uint64_t sequences[RETENTION_BATCH];
    if (!retention->due)
        return 0;
    retention->due = false;
    retention->cluster = cluster;
    watch_clock(retention);
    int count = choose_jobs(retention, sequences, RETENTION_BATCH);
    int rc = forget_jobs(retention, sequences, count, err);
    if (rc) {
        check_again_in(retention, RETENTION_EVERY_MS);
        return rc;
    }
    bool more = remove_stray_output(retention) || count == RETENTION_BATCH;
    more = measure_batch(retention) || more;
    trim_output(retention);
    check_again_in(retention, more ? RETENTION_PAUSE_MS : RETENTION_EVERY_MS);
    return 0;
}
