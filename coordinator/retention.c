#include "coordinator/retention.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/env/env.h"
#include "coordinator/driver.h"

enum { DAY_MS = 86400000 };

static void on_time(void *arg)
{
    struct driver *driver = arg;
    driver->retention.due = true;
}

static void again(struct driver *driver, int64_t in_ms)
{
    loop_timer_set(driver->loop, &driver->retention.timer, loop_now_ms(driver->loop) + in_ms,
                   on_time, driver);
}

void retention_start(struct driver *driver)
{
    struct retention *retention = &driver->retention;
    if (!retention->keep_jobs)
        retention->keep_jobs = RETENTION_KEEP_JOBS;
    if (!retention->keep_ms)
        retention->keep_ms = (int64_t)RETENTION_KEEP_DAYS * DAY_MS;
    again(driver, RETENTION_PAUSE_MS);
}

void retention_fini(struct driver *driver)
{
    if (driver->loop)
        loop_timer_cancel(driver->loop, &driver->retention.timer);
    free(driver->retention.names);
    driver->retention.names = NULL;
}

static bool lives(const struct job *job)
{
    for (int i = 0; i < job->workers_count; i++)
        if (job->workers[i].state != WORKER_EXITED)
            return true;
    return false;
}

/* The jobs that ended first, of the lowest numbers, `max` at most. Lowers *beyond by those that
 * ended and cannot go yet. */
static int ended_first(const struct cluster *cluster, const struct job **ret, int max, int *beyond)
{
    const struct job *newest = cluster_last_job(cluster);
    int count = 0, seen = 0;
    for (const struct job *job = cluster_first_job(cluster);
         job && job != newest && seen < RETENTION_SCAN_MAX;
         job = cluster_next_job(cluster, job), seen++) {
        if (!job_state_ended(job->state))
            continue;
        if (lives(job)) {
            --*beyond;
            continue;
        }
        int at = count < max ? count++ : max;
        for (; at > 0 && ret[at - 1]->ended_wall_ms > job->ended_wall_ms; at--)
            if (at < max)
                ret[at] = ret[at - 1];
        if (at < max)
            ret[at] = job;
    }
    return count;
}

/* The jobs that need not be kept, `max` at most. By their ends, not their numbers: one that ran for
 * weeks beside thousands of short ones is news when it ends. */
static int choose(struct driver *driver, uint64_t *ret, int max)
{
    const struct job *jobs[RETENTION_BATCH];
    const struct cluster *cluster = driver->cluster;
    const struct retention *retention = &driver->retention;
    const struct clock *clock = &driver->env->clock;
    int64_t before_ms = clock->wall_ms(clock->self) - retention->keep_ms;
    int active = 0, count = 0;
    for (const struct job *job = cluster_first_active_job(cluster); job;
         job = cluster_next_active_job(cluster, job))
        active++;
    int beyond = cluster_jobs_count(cluster) - active - retention->keep_jobs;
    int ended = ended_first(cluster, jobs, max, &beyond);
    while (count < ended && (count < beyond || jobs[count]->ended_wall_ms < before_ms)) {
        ret[count] = jobs[count]->sequence;
        count++;
    }
    return count;
}

static int forget_rows(struct driver *driver, const uint64_t *sequences, int count,
                       struct error *err)
{
    const struct store_verbs *verbs = driver->store->verbs;
    int rc = verbs->begin(driver->store, err);
    for (int i = 0; rc == 0 && i < count; i++)
        rc = verbs->forget_job(driver->store, sequences[i], err);
    if (rc == 0)
        rc = verbs->commit(driver->store, err);
    if (rc < 0)
        verbs->rollback(driver->store);
    return rc;
}

static struct job *job_of(const struct cluster *cluster, uint64_t sequence)
{
    char id[JOB_ID_MAX + 1];
    (void)str_printf(id, sizeof id, "j%llu", (unsigned long long)sequence);
    return cluster_job(cluster, id);
}

/* Output of jobs that are not known: what a crash left between a row and its files. */
static bool sweep(struct driver *driver)
{
    struct retention *retention = &driver->retention;
    char path[PATH_MAX];
    struct disk *disk = &driver->env->disk;
    if (!retention->swept) {
        retention->swept = true;
        if (!driver->data_dir || str_printf(path, sizeof path, "%s/logs", driver->data_dir) < 0 ||
            disk->list(disk->self, path, &retention->names, NULL) < 0)
            retention->names = NULL;
    }
    for (int i = 0; retention->names && i < RETENTION_BATCH; i++) {
        const char *name = retention->names[retention->next_name];
        if (!name) {
            free(retention->names);
            retention->names = NULL;
        } else {
            if (!cluster_job(driver->cluster, name))
                service_forget_job(driver->service, name);
            retention->next_name++;
        }
    }
    return retention->names;
}

int retention_turn_end(struct driver *driver, struct error *err)
{
    uint64_t sequences[RETENTION_BATCH];
    if (!driver->retention.due || driver->refusing)
        return 0;
    driver->retention.due = false;
    int count = choose(driver, sequences, RETENTION_BATCH);
    int rc = count ? forget_rows(driver, sequences, count, err) : 0;
    if (rc < 0) {
        again(driver, RETENTION_EVERY_MS);
        return rc;
    }
    for (int i = 0; i < count; i++) {
        char id[JOB_ID_MAX + 1];
        struct job *job = job_of(driver->cluster, sequences[i]);
        (void)str_copy(id, sizeof id, job->id);
        cluster_remove_job(driver->cluster, job);
        service_forget_job(driver->service, id);
    }
    bool more = sweep(driver) || count == RETENTION_BATCH;
    again(driver, more ? RETENTION_PAUSE_MS : RETENTION_EVERY_MS);
    return 0;
}
