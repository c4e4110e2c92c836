#include "libworker/graph/plan.h"

#include <stdlib.h>

#include <worker/error.h>

#include "common/base/parse.h"
#include "libworker/graph/join.h"
#include "libworker/graph/needs.h"
#include "libworker/graph/offload.h"
#include "libworker/graph/repeat.h"
#include "libworker/graph/schedule.h"

static int no_memory(struct error *err)
{
    return error_set(err, WK_ENOMEM, "no memory to plan the model");
}

/* The offsets of all values. */
static int place(struct emitter *e, struct error *err)
{
    struct plan *plan = e->plan;
    plan->region_bytes = layout_place(e->storages, e->n_storages);
    if (plan->region_bytes == (size_t)-1)
        return no_memory(err);
    for (int i = 0; i < plan->n_values; i++) {
        if (plan->values[i].storage >= 0)
            plan->values[i].offset = e->storages[plan->values[i].storage].offset;
    }
    return 0;
}

/* The launches with what is chosen to be computed again, and with copies to the host. There are
 * enough copies that no launch needs more than `within` bytes, if that can be. region_bytes is what
 * the fullest one needs. */
static int list_launches(struct emitter *e, size_t within, struct error *err)
{
    struct plan *plan = e->plan;
    if (schedule(e))
        return no_memory(err);
    plan->region_bytes = layout_live(e->storages, e->n_storages, plan->n_launches);
    if (plan->region_bytes == (size_t)-1)
        return no_memory(err);
    if (!plan->options.offload || !plan->options.trace.trains)
        return 0;
    struct offload *offload = offload_new(e);
    bool listed = offload && offload_list(offload, within) == 0;
    offload_free(offload);
    return listed ? 0 : no_memory(err);
}

static int list_and_place(struct emitter *e, struct error *err)
{
    int rc = list_launches(e, 0, err);
    if (!rc)
        rc = place(e, err);
    return rc;
}

/* A search for the first level of recomputation with a small enough region. */
struct search {
    struct emitter *emitter;
    int levels;
    size_t least; /* bytes of the regions laid out so far; or (size_t)-1 */
};

/* Layout needs most of the time, and no region is below what is needed at a time. So
 * only a region that may be at most `bytes` is laid out. It is some percent larger than what its
 * fullest launch needs. Where copies were enough for that launch alone, all of them are made. */
static int try_level(struct search *s, int level, size_t bytes, struct error *err)
{
    struct emitter *e = s->emitter;
    recompute_level(&e->recompute, level, s->levels);
    int rc = list_launches(e, bytes, err);
    if (rc || e->plan->region_bytes > bytes)
        return rc;
    rc = place(e, err);
    if (!rc && e->plan->region_bytes > bytes && e->plan->options.offload)
        rc = list_and_place(e, err);
    if (!rc && e->plan->region_bytes < s->least)
        s->least = e->plan->region_bytes;
    return rc;
}

/* No level fits: report the least that one needs. */
static int refuse_budget(struct search *s, struct error *err)
{
    char least[FORMAT_MAX], within[FORMAT_MAX];
    const struct plan_options *options = &s->emitter->plan->options;
    for (int level = s->levels; level >= 0; level--) {
        int rc = try_level(s, level, s->least - 1, err);
        if (rc)
            return rc;
    }
    return error_set(err, WK_ENOMEM,
                     "a training pass of %lld samples of length %lld needs %s (%zu bytes) at the "
                     "least, however much it computes again: recompute is %s",
                     (long long)options->sizes.samples, (long long)options->sizes.length,
                     format_bytes(s->least, least), s->least,
                     format_bytes((uint64_t)options->within, within));
}

static int plan_within(struct emitter *e, struct error *err)
{
    struct search search = {
        .emitter = e, .levels = recompute_levels(&e->recompute), .least = (size_t)-1};
    size_t within = (size_t)e->plan->options.within;
    for (int level = 0; level <= search.levels; level++) {
        int rc = try_level(&search, level, within, err);
        if (rc || e->plan->region_bytes <= within)
            return rc;
    }
    return refuse_budget(&search, err);
}

static int fill(struct emitter *e, struct error *err)
{
    const struct plan_options *options = &e->plan->options;
    bool within = options->recompute == WK_RECOMPUTE_WITHIN && options->trace.trains;
    if (!within)
        recompute_choose(&e->recompute,
                         options->trace.trains ? options->recompute : WK_RECOMPUTE_NONE);
    int rc = within ? plan_within(e, err) : list_and_place(e, err);
    e->plan->again_flop = recompute_flop(&e->recompute);
    return rc;
}

int plan_new(const struct wk_graph *graph, const struct plan_options *options, const int *blocks,
             struct plan **ret_plan, struct error *err)
{
    struct emitter emitter;
    struct plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return no_memory(err);
    plan->options = *options;
    plan->graph = graph;
    int rc = emit_init(&emitter, graph, plan, blocks, err);
    if (!rc) {
        rc = join_find(&emitter) ? no_memory(err) : fill(&emitter, err);
        emit_fini(&emitter);
    }
    if (!rc)
        rc = needs_check(plan, err);
    if (rc) {
        plan_free(plan);
        return rc;
    }
    plan->repeats = options->device && repeat_pays(plan, device_graphs(options->device));
    *ret_plan = plan;
    return 0;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    free(plan->launches);
    free(plan->values);
    free(plan->joined);
    free(plan);
}
