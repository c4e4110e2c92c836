#include "coordinator/api_rpc/rank_pace.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/str.h"

const struct group *rank_pace_group(const struct job *job)
{
    return job->current.world ? &job->current : &job->forming;
}

const struct worker *rank_pace_worker(const struct job *job, int rank)
{
    return job_worker(job, rank_pace_group(job)->members[rank]);
}

double rank_pace_ms(const struct rank_figures_worker *worker, bool by_work)
{
    if (!worker || worker->timed < RANK_PACE_TIMED_MIN)
        return NAN;
    return by_work ? worker->work_ms : worker->step_ms;
}

static const struct rank_figures_worker *figures_at(const struct rank_figures *figures,
                                                    const struct job *job, int rank)
{
    return rank_figures_of(figures, job->id, rank_pace_group(job)->members[rank]);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower one of two in the middle: of two ranks the faster one. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[(count - 1) / 2];
}

static void compare_ranks(const struct rank_figures *figures, const struct job *job, double *values,
                          struct rank_pace *ret)
{
    int world = rank_pace_group(job)->world, count = 0;
    *ret = (struct rank_pace){.by_work = true};
    for (int rank = 0; rank < world; rank++) {
        const struct rank_figures_worker *worker = figures_at(figures, job, rank);
        bool known = !isnan(rank_pace_ms(worker, false));
        ret->compared += known;
        ret->by_work = ret->by_work && (!known || !isnan(worker->work_ms));
    }
    if (ret->compared < 2) {
        *ret = (struct rank_pace){0};
        return;
    }
    for (int rank = 0; rank < world; rank++) {
        double ms = rank_pace_ms(figures_at(figures, job, rank), ret->by_work);
        if (isnan(ms))
            continue;
        values[count++] = ms;
        if (ms > ret->slowest_ms) {
            ret->slowest_ms = ms;
            ret->slowest = rank;
        }
    }
    ret->median_ms = median(values, count);
}

void rank_pace_read(const struct rank_figures *figures, const struct job *job,
                    struct rank_pace *ret)
{
    int world = rank_pace_group(job)->world;
    double *values = world > 0 ? calloc((size_t)world, sizeof(*values)) : NULL;
    *ret = (struct rank_pace){0};
    if (values)
        compare_ranks(figures, job, values, ret);
    free(values);
}

bool rank_pace_explain(const struct rank_figures *figures, const struct job *job,
                       struct reason *ret)
{
    struct rank_pace pace;
    if (job->state != JOB_RUNNING || job->stalled_wall_ms)
        return false;
    rank_pace_read(figures, job, &pace);
    if (pace.compared < 2 || pace.slowest_ms < pace.median_ms * RANK_PACE_SLOW ||
        pace.slowest_ms < pace.median_ms + RANK_PACE_SLOW_MS)
        return false;
    const struct worker *worker = rank_pace_worker(job, pace.slowest);
    reason_set(ret, REASON_SLOW_RANK,
               "rank %d (node %s) %s %.4g ms %s, the median rank %.4g ms: %.1f times as long",
               pace.slowest, worker ? worker->node : "?", pace.by_work ? "works" : "needs",
               pace.slowest_ms, pace.by_work ? "in each step without waiting" : "for a step",
               pace.median_ms, pace.slowest_ms / pace.median_ms);
    ret->rank = pace.slowest;
    if (worker)
        (void)str_copy(ret->node, sizeof(ret->node), worker->node);
    reason_hint(ret,
                "`muster show %s --ranks` compares all; `muster stacks %s --rank %d` tells "
                "where it is",
                job->id, job->id, pace.slowest);
    return true;
}
