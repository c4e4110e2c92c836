#include "coordinator/api_rpc/rank_figures.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/str.h"

enum { SPARE_ENTRIES = 64 /* of workers that are forgotten, before they are looked for */ };

struct rank_figures_job {
    struct list link;   /* in `jobs_by_use` */
    struct map workers; /* uid -> struct rank_figures_worker */
    size_t bytes;
    char id[JOB_ID_MAX + 1];
};

struct rank_figures {
    struct strmap jobs;      /* id -> struct rank_figures_job */
    struct list jobs_by_use; /* the one that was changed last is the last one */
    size_t bytes;
};

int rank_figures_new(struct rank_figures **ret, struct error *err)
{
    struct rank_figures *figures = calloc(1, sizeof(*figures));
    if (!figures)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for what ranks report");
    list_init(&figures->jobs_by_use);
    *ret = figures;
    return 0;
}

static size_t bytes_of(const struct rank_figures_worker *worker)
{
    return sizeof(struct map_entry) + sizeof(*worker) +
           (size_t)worker->count * sizeof(worker->numbers[0]);
}

static void forget_job(struct rank_figures *figures, struct rank_figures_job *job)
{
    figures->bytes -= job->bytes;
    strmap_remove(&figures->jobs, job->id);
    list_remove(&job->link);
    map_free_values(&job->workers);
    free(job);
}

void rank_figures_free(struct rank_figures *figures)
{
    if (!figures)
        return;
    while (!list_empty(&figures->jobs_by_use))
        forget_job(figures, list_first(&figures->jobs_by_use, struct rank_figures_job, link));
    strmap_fini(&figures->jobs);
    free(figures);
}

void rank_figures_forget(struct rank_figures *figures, const char *job)
{
    struct rank_figures_job *found = strmap_get(&figures->jobs, job);
    if (found)
        forget_job(figures, found);
}

static struct rank_figures_job *job_of(struct rank_figures *figures, const char *id)
{
    struct rank_figures_job *job = strmap_get(&figures->jobs, id);
    if (job || !(job = calloc(1, sizeof(*job))))
        return job;
    (void)str_copy(job->id, sizeof(job->id), id);
    if (strmap_set(&figures->jobs, id, job, NULL)) {
        free(job);
        return NULL;
    }
    list_push_back(&figures->jobs_by_use, &job->link);
    return job;
}

static void remove_worker(struct rank_figures *figures, struct rank_figures_job *job, uint64_t uid)
{
    struct rank_figures_worker *worker = map_remove(&job->workers, uid);
    size_t bytes = worker ? bytes_of(worker) : 0;
    job->bytes -= bytes;
    figures->bytes -= bytes;
    free(worker);
}

static void remove_forgotten(struct rank_figures *figures, struct rank_figures_job *job,
                             const struct job *of)
{
    if (job->workers.count <= (size_t)of->workers_count + SPARE_ENTRIES)
        return;
    for (struct map_entry *e = map_first(&job->workers), *next; e; e = next) {
        next = map_next(e);
        if (!job_worker(of, e->key))
            remove_worker(figures, job, e->key);
    }
}

static struct rank_figures_worker *worker_of(const Muster__WorkerFigures *message)
{
    size_t count = message->n_numbers < RANK_FIGURES_NUMBERS_MAX ? message->n_numbers
                                                                 : RANK_FIGURES_NUMBERS_MAX;
    struct rank_figures_worker *ret = calloc(1, sizeof(*ret) + count * sizeof(ret->numbers[0]));
    if (!ret)
        return NULL;
    bool works = message->work_ms_known_case && message->work_ms >= 0;
    ret->timed = message->step_ms >= 0 ? (int)(message->timed & 0xffff) : 0;
    ret->step_ms = ret->timed ? message->step_ms : 0;
    ret->work_ms = works ? message->work_ms : NAN;
    for (size_t i = 0; i < count; i++) {
        struct rank_figures_number *number = &ret->numbers[ret->count];
        if (!metric_name_valid(message->numbers[i]->key))
            continue;
        (void)str_copy(number->name, sizeof(number->name), message->numbers[i]->key);
        number->value = message->numbers[i]->value;
        ret->count++;
    }
    return ret;
}

void rank_figures_put(struct rank_figures *figures, const struct job *job,
                      const Muster__WorkerFigures *message)
{
    struct rank_figures_job *known = job_of(figures, job->id);
    struct rank_figures_worker *worker = known ? worker_of(message) : NULL;
    if (!worker)
        return;
    list_remove(&known->link);
    list_push_back(&figures->jobs_by_use, &known->link);
    remove_worker(figures, known, message->uid);
    remove_forgotten(figures, known, job);
    if (known->bytes + bytes_of(worker) > RANK_FIGURES_JOB_MAX_BYTES)
        worker->count = 0; /* its times are worth more than its numbers */
    size_t bytes = bytes_of(worker);
    if (map_set(&known->workers, message->uid, worker, NULL)) {
        free(worker);
        return;
    }
    known->bytes += bytes;
    figures->bytes += bytes;
    while (figures->bytes > RANK_FIGURES_MAX_BYTES &&
           figures->jobs_by_use.next != figures->jobs_by_use.previous)
        forget_job(figures, list_first(&figures->jobs_by_use, struct rank_figures_job, link));
}

const struct rank_figures_worker *rank_figures_of(const struct rank_figures *figures,
                                                  const char *job, uint64_t uid)
{
    const struct rank_figures_job *found = strmap_get(&figures->jobs, job);
    return found ? map_get(&found->workers, uid) : NULL;
}
