#include "coordinator/scheduler/plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/scheduler/blockers.h"
#include "coordinator/scheduler/what_if.h"

_Static_assert((int)QUEUE_WITHOUT_MAX > (int)WHAT_IF_MAX, "those gone, and who is asked about");

const char *effect_name(enum effect_kind kind)
{
    static const char *const names[] = {"starts", "shrinks", "moves", "restarts", "waits"};
    return names[kind];
}

/* A pass like core's, and its result for the job in question. */
struct look {
    struct pass pass;
    const struct what_if *what_if;
    struct altered altered;
    struct altered *again;  /* the same for dry runs; NULL until there is one */
    const struct job *job;  /* the job in question; NULL = none */
    struct job stand_in;    /* target of `job` for an altered job */
    struct tenant stranger; /* its tenant, if the cluster does not know it */
    bool altering;          /* the state is altered */
    bool found;             /* its turn has come */
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

static void note_placed(struct look *look, const struct job *job, struct placement *placement)
{
    look->placed = array_reserve(look->placed, look->placed_count, &look->placed_capacity,
                                 sizeof(*look->placed));
    look->placed[look->placed_count++] = (struct placed){.job = job, .placement = *placement};
}

static void give_way(struct look *look, const struct concession *given, int count, bool asked)
{
    for (int i = 0; i < count; i++)
        forecast_add(look->ret, &(struct effect){.kind = given[i].moves     ? EFFECT_MOVES
                                                         : given[i].node    ? EFFECT_SHRINKS
                                                         : given[i].returns ? EFFECT_RESTARTS
                                                                            : EFFECT_WAITS,
                                                 .job = given[i].job,
                                                 .node = given[i].node,
                                                 .gives_way = asked});
}

/* Search victims for the job in question, or for a job that waits only because of the altered
 * state. In the real state victims of any other job would already have been asked. */
static void make_room(struct look *look, const struct job *job)
{
    int count = preempt_try(&look->pass, job);
    const struct concession *given =
        count > 0 ? look->pass.given + look->pass.given_count - count : NULL;
    struct displaced *copy = altered_find(&look->altered, job);
    if (job == look->job)
        look->ret->makes_room = count > 0;
    else if (copy && count > 0)
        copy->again = true;
    else if (look->altering && count > 0)
        forecast_add(look->ret, &(struct effect){.kind = EFFECT_STARTS, .job = job});
    if (job == look->job || look->altering)
        give_way(look, given, count, job == look->job);
}

static void note_ahead(struct look *look, const struct job *job)
{
    if (look->found)
        return;
    if (look->ahead.count < BLOCKERS_NAMED_MAX)
        look->ahead.named[look->ahead.count] = job;
    look->ahead.count++;
}

static void try_one(struct look *look, const struct job *job)
{
    struct verdict verdict;
    bool ready = pass_is_ready(&look->pass, job);
    look->beyond |= !pass_goes_on(&look->pass);
    pass_try(&look->pass, job, &verdict);
    look->found |= job == look->job;
    look->refused += !verdict.placed;
    if (!verdict.placed)
        note_ahead(look, job);
    if (job == look->job) {
        look->ret->starts = verdict.placed;
        look->ret->starts_at_ms = verdict.starts_at_ms;
        look->ret->reasons_count = verdict.placed
                                       ? 0
                                       : blockers_explain(&look->pass, job, &verdict, &look->ahead,
                                                          look->ret->reasons, PLAN_REASONS_MAX);
    }
    if (!verdict.placed && ready && verdict.fresh && !look->beyond)
        make_room(look, job);
    if (verdict.placed && ready)
        note_placed(look, job, &verdict.placement);
    else
        placement_fini(&verdict.placement);
}

/* True if later jobs matter. If the job starts they do, because the rest is divided after all have
 * their minimum. In a question about others they do as far as a real pass would look. */
static bool may_go_on(const struct look *look)
{
    if (look->refused >= PLAN_DEPTH_MAX)
        return false;
    bool left = look->pass.view.available > 0;
    return !look->found || (look->ret->starts && left) ||
           (look->altering && (left || !look->beyond));
}

static void tell_placed(struct look *look, struct placed *placed)
{
    const struct displaced *copy = altered_find(&look->altered, placed->job);
    pass_extend(&look->pass, placed->job, &placed->placement);
    if (placed->job == look->job) {
        look->ret->placement = placed->placement;
        placed->placement = (struct placement){0};
    } else if (!copy && look->altering) {
        forecast_add(look->ret, &(struct effect){.kind = EFFECT_STARTS, .job = placed->job});
    }
}

static void look_on(struct look *look)
{
    for (const struct job *next; may_go_on(look) && (next = pass_next(&look->pass));)
        try_one(look, next);
    for (int i = 0; i < look->placed_count; i++) {
        struct displaced *copy = altered_find(&look->altered, look->placed[i].job);
        if (copy)
            copy->again = true;
        tell_placed(look, &look->placed[i]);
        placement_fini(&look->placed[i].placement);
    }
    for (const struct displaced *one = look->altered.displaced; one; one = one->next)
        forecast_add(
            look->ret,
            &(struct effect){.kind = one->again ? EFFECT_RESTARTS : EFFECT_WAITS, .job = one->job});
    look->ret->ahead = look->ahead.count;
    if (look->job && !look->found && look->ahead.count > 0)
        blockers_ahead(look->job, &look->ahead, &look->ret->reasons[look->ret->reasons_count++]);
}

/* A job that exists only in this what-if. */
static void make_stand_in(struct look *look)
{
    const struct what_if *what_if = look->what_if;
    struct job *job = &look->stand_in;
    if (what_if->job)
        *job = *what_if->job;
    else
        *job = (struct job){.sequence = UINT64_MAX >> 17, .state = JOB_QUEUED};
    if (what_if->spec)
        job->spec = (struct spec *)(uintptr_t)what_if->spec;
    job->tenant = cluster_tenant(look->pass.view.cluster, job->spec->tenant);
    if (!job->tenant) {
        look->stranger.weight = 1;
        (void)str_copy(look->stranger.name, sizeof(look->stranger.name), job->spec->tenant);
        job->tenant = &look->stranger;
    }
    look->job = job;
}

static int alter(struct look *look, struct pass *pass, struct altered *altered,
                 struct forecast *forecast, struct error *err)
{
    int rc = what_if_apply(pass, look->what_if, altered, forecast, err);
    if (rc < 0 || !look->job)
        return rc;
    if (look->job->tenant == &look->stranger)
        queue_add_tenant(&pass->queue, &look->stranger);
    if (look->what_if->job)
        queue_leave_out(&pass->queue, look->what_if->job);
    queue_add(&pass->queue, look->job);
    return 0;
}

static void renew(void *arg, struct pass *ret)
{
    struct look *look = arg;
    struct forecast *unused = calloc(1, sizeof(*unused));
    if (look->again)
        altered_fini(look->again);
    free(look->again);
    look->again = calloc(1, sizeof(*look->again));
    insist(look->again && unused);
    pass_init(ret, look->pass.view.cluster, look->pass.view.now_ms);
    insist(alter(look, ret, look->again, unused, NULL) == 0); /* it succeeded before */
    free(unused);
}

static int plan(struct look *look, struct error *err)
{
    const struct what_if *what_if = look->what_if;
    look->altering = what_if->drained_count || what_if->gone_count || what_if->gone_tenants_count ||
                     what_if->added_count;
    if (what_if->job || what_if->spec)
        make_stand_in(look);
    int rc = alter(look, &look->pass, &look->altered, look->ret, err);
    if (rc == 0 && what_if->spec)
        rc = scheduler_possible_with(look->pass.view.cluster, what_if->spec, look->altered.added,
                                     look->altered.added_count, err);
    if (rc == 0)
        look_on(look);
    return rc;
}

int scheduler_plan(const struct cluster *cluster, const struct what_if *what_if,
                   struct forecast *ret, struct error *err)
{
    struct look *look = calloc(1, sizeof(*look));
    struct forecast *forecast = calloc(1, sizeof(*forecast));
    insist(look && forecast);
    look->ret = forecast;
    look->what_if = what_if;
    pass_init(&look->pass, cluster, cluster_now(cluster));
    look->pass.renew = renew;
    look->pass.renew_arg = look;
    int rc = plan(look, err);
    if (rc == 0)
        *ret = *forecast;
    pass_fini(&look->pass);
    altered_fini(&look->altered);
    if (look->again)
        altered_fini(look->again);
    free(look->again);
    free(look->placed);
    free(look);
    free(forecast);
    return rc;
}

void forecast_fini(struct forecast *forecast)
{
    placement_fini(&forecast->placement);
}
