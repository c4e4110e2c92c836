#include "coordinator/scheduler/plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/blockers.h"
#include "coordinator/scheduler/possible.h"
#include "coordinator/scheduler/preempt.h"

_Static_assert((int)QUEUE_WITHOUT_MAX > (int)WHAT_IF_MAX, "those gone, and who is asked about");

/* A pass like core's, and its result for the job in question. */
struct planning {
    struct pass pass;
    const struct what_if *what_if;
    struct altered altered;
    struct altered *dry_run_altered; /* the same for dry runs; NULL until there is one */
    const struct job *job;           /* the job in question; NULL = none */
    struct job hypothetical;         /* target of `job` for an altered job */
    struct tenant unknown_tenant;    /* its tenant, if the cluster does not know it */
    bool altering;                   /* the state is altered */
    bool found;                      /* it was reached */
    struct ahead ahead;
    struct placed {
        const struct job *job;
        struct placement placement;
    } * placed; /* gangs that start, in order */
    int placed_count, placed_capacity;
    int refused;
    bool beyond; /* a real pass would have ended before */
    struct forecast *ret;
};

static void remember_placed(struct planning *planning, const struct job *job,
                            struct placement *placement)
{
    planning->placed = array_reserve(planning->placed, planning->placed_count,
                                     &planning->placed_capacity, sizeof(*planning->placed));
    planning->placed[planning->placed_count++] =
        (struct placed){.job = job, .placement = *placement};
}

static void add_eviction_effects(struct planning *planning, const struct eviction *evictions,
                                 int count, bool asked)
{
    for (int i = 0; i < count; i++)
        forecast_add(planning->ret,
                     &(struct effect){.kind = evictions[i].moves     ? EFFECT_MOVES
                                              : evictions[i].node    ? EFFECT_SHRINKS
                                              : evictions[i].returns ? EFFECT_RESTARTS
                                                                     : EFFECT_WAITS,
                                      .job = evictions[i].job,
                                      .node = evictions[i].node,
                                      .gives_way = asked});
}

/* Search victims for the job in question, or for a job that waits only because of the altered
 * state. In the real state victims of any other job would already have been asked. */
static void find_victims(struct planning *planning, const struct job *job)
{
    int count = preempt_try(&planning->pass, job);
    const struct eviction *evictions =
        count > 0 ? planning->pass.evictions + planning->pass.evictions_count - count : NULL;
    struct displaced *copy = altered_find(&planning->altered, job);
    if (job == planning->job)
        planning->ret->waits_for_victims = count > 0;
    else if (copy && count > 0)
        copy->again = true;
    else if (planning->altering && count > 0)
        forecast_add(planning->ret, &(struct effect){.kind = EFFECT_STARTS, .job = job});
    if (job == planning->job || planning->altering)
        add_eviction_effects(planning, evictions, count, job == planning->job);
}

static void count_ahead(struct planning *planning, const struct job *job)
{
    if (planning->found)
        return;
    if (planning->ahead.count < BLOCKERS_NAMED_MAX)
        planning->ahead.named[planning->ahead.count] = job;
    planning->ahead.count++;
}

static void try_job(struct planning *planning, const struct job *job)
{
    struct verdict verdict;
    bool ready = pass_is_ready(&planning->pass, job);
    planning->beyond |= !pass_goes_on(&planning->pass);
    pass_try(&planning->pass, job, &verdict);
    planning->found |= job == planning->job;
    if (!verdict.placed)
        planning->refused++;
    if (!verdict.placed)
        count_ahead(planning, job);
    if (job == planning->job) {
        planning->ret->starts = verdict.placed;
        planning->ret->starts_at_ms = verdict.starts_at_ms;
        planning->ret->reasons_count =
            verdict.placed ? 0
                           : blockers_explain(&planning->pass, job, &verdict, &planning->ahead,
                                              planning->ret->reasons, PLAN_REASONS_MAX);
    }
    if (!verdict.placed && ready && verdict.fresh && !planning->beyond)
        find_victims(planning, job);
    if (verdict.placed && ready)
        remember_placed(planning, job, &verdict.placement);
    else
        placement_fini(&verdict.placement);
}

/* True if later jobs matter. If the job starts they do, because the rest is divided after all have
 * their minimum. In a question about others they do as far as a real pass would look. */
static bool goes_on(const struct planning *planning)
{
    if (planning->refused >= PLAN_DEPTH_MAX)
        return false;
    bool left = planning->pass.view.available > 0;
    return !planning->found || (planning->ret->starts && left) ||
           (planning->altering && (left || !planning->beyond));
}

static void extend_placed(struct planning *planning, struct placed *placed)
{
    const struct displaced *copy = altered_find(&planning->altered, placed->job);
    pass_extend(&planning->pass, placed->job, &placed->placement);
    if (placed->job == planning->job) {
        planning->ret->placement = placed->placement;
        placed->placement = (struct placement){0};
    } else if (!copy && planning->altering) {
        forecast_add(planning->ret, &(struct effect){.kind = EFFECT_STARTS, .job = placed->job});
    }
}

static void run_pass(struct planning *planning)
{
    for (const struct job *next; goes_on(planning) && (next = pass_next(&planning->pass));)
        try_job(planning, next);
    for (int i = 0; i < planning->placed_count; i++) {
        struct displaced *copy = altered_find(&planning->altered, planning->placed[i].job);
        if (copy)
            copy->again = true;
        extend_placed(planning, &planning->placed[i]);
        placement_fini(&planning->placed[i].placement);
    }
    for (const struct displaced *one = planning->altered.displaced; one; one = one->next)
        forecast_add(
            planning->ret,
            &(struct effect){.kind = one->again ? EFFECT_RESTARTS : EFFECT_WAITS, .job = one->job});
    planning->ret->ahead = planning->ahead.count;
    if (planning->job && !planning->found && planning->ahead.count > 0)
        blockers_ahead(planning->job, &planning->ahead,
                       &planning->ret->reasons[planning->ret->reasons_count++]);
}

/* A job that exists only in this what-if. */
static void init_hypothetical(struct planning *planning)
{
    const struct what_if *what_if = planning->what_if;
    struct job *job = &planning->hypothetical;
    if (what_if->job)
        *job = *what_if->job;
    else
        *job = (struct job){.sequence = UINT64_MAX >> 17, .state = JOB_QUEUED};
    if (what_if->spec)
        job->spec = (struct spec *)(uintptr_t)what_if->spec;
    job->tenant = cluster_tenant(planning->pass.view.cluster, job->spec->tenant);
    if (!job->tenant) {
        planning->unknown_tenant.weight = 1;
        (void)str_copy(planning->unknown_tenant.name, sizeof(planning->unknown_tenant.name),
                       job->spec->tenant);
        job->tenant = &planning->unknown_tenant;
    }
    planning->job = job;
}

static int apply_changes(struct planning *planning, struct pass *pass, struct altered *altered,
                         struct forecast *forecast, struct error *err)
{
    int rc = what_if_apply(pass, planning->what_if, altered, forecast, err);
    if (rc || !planning->job)
        return rc;
    if (planning->job->tenant == &planning->unknown_tenant)
        queue_add_tenant(&pass->queue, &planning->unknown_tenant);
    if (planning->what_if->job)
        queue_leave_out(&pass->queue, planning->what_if->job);
    queue_add(&pass->queue, planning->job);
    return 0;
}

static void init_dry_run(void *arg, struct pass *ret)
{
    struct planning *planning = arg;
    struct forecast *unused = calloc(1, sizeof(*unused));
    if (planning->dry_run_altered)
        altered_fini(planning->dry_run_altered);
    free(planning->dry_run_altered);
    planning->dry_run_altered = calloc(1, sizeof(*planning->dry_run_altered));
    insist(planning->dry_run_altered && unused);
    pass_init(ret, planning->pass.view.cluster, planning->pass.view.now_ms);
    insist(apply_changes(planning, ret, planning->dry_run_altered, unused, NULL) ==
           0); /* it succeeded before */
    free(unused);
}

static int make_forecast(struct planning *planning, struct error *err)
{
    const struct what_if *what_if = planning->what_if;
    planning->altering = what_if->drained_count || what_if->gone_count ||
                         what_if->gone_tenants_count || what_if->added_count;
    if (what_if->job || what_if->spec)
        init_hypothetical(planning);
    int rc = apply_changes(planning, &planning->pass, &planning->altered, planning->ret, err);
    if (!rc && what_if->spec)
        rc = scheduler_possible_with(planning->pass.view.cluster, what_if->spec,
                                     planning->altered.added, planning->altered.added_count, err);
    if (!rc)
        run_pass(planning);
    return rc;
}

int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err)
{
    struct planning *planning = calloc(1, sizeof(*planning));
    struct forecast *forecast = calloc(1, sizeof(*forecast));
    insist(planning && forecast);
    planning->ret = forecast;
    planning->what_if = what_if;
    pass_init(&planning->pass, cluster, cluster_now(cluster));
    planning->pass.init_dry_run = init_dry_run;
    planning->pass.init_dry_run_arg = planning;
    int rc = make_forecast(planning, err);
    if (!rc)
        *ret = *forecast;
    pass_fini(&planning->pass);
    altered_fini(&planning->altered);
    if (planning->dry_run_altered)
        altered_fini(planning->dry_run_altered);
    free(planning->dry_run_altered);
    free(planning->placed);
    free(planning);
    free(forecast);
    return rc;
}
