#include "libworker/step/agree_shards.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/checkpoint/list.h"
#include "libworker/device/reach.h"
#include "libworker/step/bind.h"
#include "libworker/step/carried.h"
#include "libworker/step/context.h"
#include "libworker/step/hand_off.h"
#include "libworker/step/member.h"
#include "libworker/step/shards.h"

static int comm_failed(struct wk_context *ctx, int rc, struct error *err)
{
    return error_set(err, rc, "%s", units_sentence(ctx));
}

static bool holds(const struct member *member, int64_t part)
{
    bool found = member->part == part;
    for (int64_t i = 0; i < member->n_handoffs && !found; i++)
        found = member->handoffs[i] == part;
    return found;
}

/* The member with part `part` of the same cut as `like`, or -1. A skipped step advances a member's
 * counters but does not change its part. */
static int holder(const struct wk_context *ctx, const struct member *members,
                  const struct member *like, int64_t part)
{
    for (int i = 0; i < ctx->group.world; i++) {
        const struct member *m = &members[i];
        if (m->trained && holds(m, part) && m->cut_generation == like->cut_generation &&
            m->taken == like->taken && m->parts_of == like->parts_of)
            return i;
    }
    return -1;
}

/* The furthest member of a complete set of parts; -1 if no set is complete. */
static int whole_set(const struct wk_context *ctx, const struct member *members)
{
    int best = -1;
    for (int i = 0; i < ctx->group.world; i++) {
        bool complete = members[i].trained && members[i].part >= 0;
        for (int64_t part = 0; complete && part < members[i].parts_of; part++)
            complete = holder(ctx, members, &members[i], part) >= 0;
        if (complete && (best < 0 || member_further(&members[i], &members[best])))
            best = i;
    }
    return best;
}

/* True if every member is cut as the present world requires. */
static bool cut_alike(const struct wk_context *ctx, const struct member *members)
{
    bool same = true;
    for (int i = 0; i < ctx->group.world; i++) {
        struct layout layout = cut_layout(ctx, i);
        same = same && members[i].parts_of == layout.shards && members[i].part == layout.part;
    }
    return same;
}

static bool in_place(const struct wk_context *ctx, const struct member *members,
                     const struct member *set)
{
    bool same = cut_alike(ctx, members);
    for (int i = 0; i < ctx->group.world; i++)
        same = same && members[i].trained && members[i].cut_generation == set->cut_generation &&
               members[i].taken == set->taken;
    return same;
}

/* The rest of a unit's previous cut. */
struct old_cut {
    struct shard_plan plan;
    struct shard_buffer kept[FLAT_MAX]; /* [plan.shard] each; empty on a member without a part */
};

static void old_cut_fini(struct old_cut *old)
{
    for (int i = 0; i < FLAT_MAX; i++)
        shard_buffer_free(&old->kept[i]);
    shard_plan_fini(&old->plan);
}

static int keep_old(struct unit *unit, const struct member *set, bool had_part, struct old_cut *ret,
                    struct error *err)
{
    struct flats flats = flats_of(unit);
    int rc = shard_plan_recut(strategy_plan(&unit->strategy), (int)set->parts_of, &ret->plan, err);
    for (int i = 0; i < flats.count && had_part && !rc; i++) {
        rc = shard_buffer_new(unit->ctx, ret->plan.shard, &ret->kept[i], err);
        if (!rc)
            rc = reach_read(flats.queue[i], ret->kept[i].data, flats.data[i],
                            flats.elements[i] * sizeof(float), err);
    }
    return rc;
}

/* Part `part` of flat array `flat` of a unit, on the member that has it. */
static struct shard_buffer held_part(const struct unit *unit, const struct member *own,
                                     int64_t part, int flat, const struct old_cut *old)
{
    const struct handoff *handoff = own->part == part ? NULL : handoff_find(unit->ctx, part);
    return handoff ? handoff->buffers[unit_number(unit) - 1][flat] : old->kept[flat];
}

/* Send every part of every flat array to all ranks, which keep their own pieces. */
static int carry_parts(struct unit *unit, const struct member *members, const struct member *set,
                       struct old_cut *old, struct error *err)
{
    struct wk_context *ctx = unit->ctx;
    const struct shard_plan *plan = strategy_plan(&unit->strategy);
    struct flats flats = flats_of(unit);
    struct shard_buffer passing = {0}, mine = {0};
    int rc = shard_buffer_new(ctx, old->plan.shard, &passing, err);
    rc = rc ? rc : shard_buffer_new(ctx, plan->shard, &mine, err);
    for (int f = 0; f < flats.count && !rc; f++) {
        struct shard_plan from_plan = flat_plan(&old->plan, f), to_plan = flat_plan(plan, f);
        for (int64_t part = 0; part < set->parts_of && !rc; part++) {
            int from = holder(ctx, members, set, part);
            float *data = from == ctx->group.rank
                              ? held_part(unit, &members[from], part, f, old).data
                              : passing.data;
            rc = wk_broadcast(ctx->group.comm, data, from_plan.shard, WK_F32, from, NULL);
            if (rc)
                (void)comm_failed(ctx, rc, err);
            else
                shard_carry(&from_plan, (int)part, data, &to_plan, ctx->cut.part, mine.data);
        }
        if (!rc)
            rc = reach_write(flats.queue[f], flats.data[f], mine.data,
                             flats.elements[f] * sizeof(float), err);
    }
    shard_buffer_free(&passing);
    shard_buffer_free(&mine);
    return rc;
}

/* From the cut of `set` to that of the present world. */
static int cut_again(struct wk_context *ctx, const struct member *members, const struct member *set,
                     struct error *err)
{
    const struct member *own = &members[ctx->group.rank];
    bool had_part = own->trained && own->part >= 0 && own->cut_generation == set->cut_generation &&
                    own->taken == set->taken;
    struct old_cut old[NUMBERS_UNITS_MAX] = {0};
    int rc = 0;
    for (int i = 0; i < ctx->prepared.n_units && !rc; i++)
        rc = keep_old(&ctx->prepared.units[i], set, had_part, &old[i], err);
    ctx->state.trained = false; /* until all of it has arrived */
    ctx->state.partial = true;
    if (!rc)
        rc = bind_again(ctx, err);
    for (int i = 0; i < ctx->prepared.n_units && !rc; i++)
        rc = carry_parts(&ctx->prepared.units[i], members, set, &old[i], err);
    for (int i = 0; i < ctx->prepared.n_units; i++)
        old_cut_fini(&old[i]);
    return rc;
}

static int carry_over(struct wk_context *ctx, const struct member *members, int source,
                      struct error *err)
{
    const struct member *set = &members[source];
    struct announcement announcement = {0};
    member_announce(ctx, &announcement);
    struct error why = {0};
    if (ctx->group.rank == source)
        announcement.code = carried_read(ctx, &why);
    (void)str_copy(announcement.text, sizeof(announcement.text), why.text);
    int rc =
        wk_broadcast(ctx->group.comm, &announcement, sizeof(announcement), WK_U8, source, NULL);
    if (rc)
        return comm_failed(ctx, rc, err);
    if (announcement.code)
        return error_set(err, announcement.code, "%s", announcement.text);
    rc = carried_send(ctx, source, err);
    if (!rc && !in_place(ctx, members, set))
        rc = cut_again(ctx, members, set, err);
    if (!rc)
        rc = carried_write(ctx, err);
    if (!rc)
        member_adopt(ctx, &announcement);
    return rc;
}

/* Rank 0's choice of a checkpoint: the requested one, or the newest beside it below `before`. */
static int choose(struct wk_context *ctx, int64_t before, char ret[CHECKPOINT_PATH_MAX],
                  struct error *err)
{
    const char *wanted = settings_text(&ctx->settings, SETTING_RESUME_FROM);
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    char beside[CHECKPOINT_PATH_MAX];
    int64_t *steps;
    int count;
    *ret = 0;
    if (*ctx->group.resume_from)
        wanted = ctx->group.resume_from;
    int rc = before == INT64_MAX ? save_begin(ctx, !*wanted && !ctx->cut.fell_back, err) : 0;
    if (rc || !*wanted)
        return rc;
    bool latest = strcmp(wanted, "latest") == 0;
    if (before == INT64_MAX)
        return latest ? state_newest(ctx, ret, err) : str_copy(ret, CHECKPOINT_PATH_MAX, wanted);
    (void)str_copy(beside, sizeof(beside), latest ? dir : wanted);
    if (!latest && strrchr(beside, '/'))
        *strrchr(beside, '/') = 0;
    rc = checkpoint_list(beside, &steps, &count, err);
    if (rc)
        return rc;
    for (int i = 0; i < count; i++)
        if (steps[i] < before)
            rc = checkpoint_path(beside, steps[i], ret);
    free(steps);
    return rc;
}

/* The worst code of any member. */
static int worst(struct wk_context *ctx, int own, int *ret, struct error *err)
{
    int32_t code = own;
    int rc = wk_all_reduce(ctx->group.comm, &code, 1, WK_I32, WK_MIN, NULL);
    *ret = code;
    return rc ? comm_failed(ctx, rc, err) : 0;
}

/* Rank 0 alone may have the weights to read them from. */
static int fill_buffers(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    struct error own = {0};
    int code = 0;
    units_each(unit, ctx)
        if (!code && ctx->group.rank == 0)
            code = buffers_reset(unit->model, true, &own);
    if (!code && ctx->group.rank == 0)
        code = carried_read(ctx, &own);
    int rc = worst(ctx, code, &code, err);
    if (!rc && code)
        return own.code ? (*err = own, code)
                        : error_set(err, code, "rank 0 could not read the buffers' values");
    if (!rc)
        rc = carried_send(ctx, 0, err);
    if (!rc)
        rc = carried_write(ctx, err);
    return rc;
}

/* Nothing to load: use the models' initial values. Members may have been cut at different times; if
 * one of them lacks its values all get them. */
static int start_together(struct wk_context *ctx, struct error *err)
{
    struct unit *unit;
    int rc = 0;
    state_begins(ctx);
    units_each(unit, ctx) {
        int lacking = 0;
        int own = strategy_unfilled(&unit->strategy) ? WK_ENOTFOUND : 0;
        if (!rc)
            rc = worst(ctx, own, &lacking, err);
        if (!rc && lacking)
            rc = strategy_fill(&unit->strategy, ctx->group.comm, err);
    }
    if (!rc)
        rc = fill_buffers(ctx, err);
    return rc;
}

/* All load their parts of one checkpoint; if it is damaged, all use the one before it. */
static int load_together(struct wk_context *ctx, struct error *err)
{
    int64_t before = INT64_MAX;
    struct error failed = {0}; /* the failure that an older checkpoint replaces */
    char damaged[CHECKPOINT_PATH_MAX] = "";
    for (int tried = 0;; tried++) {
        char path[CHECKPOINT_PATH_MAX] = "";
        struct error own = {0};
        int code = ctx->group.rank == 0 ? choose(ctx, before, path, &own) : 0;
        int rc = worst(ctx, code, &code, err);
        if (!rc && code)
            return own.code
                       ? (*err = own, code)
                       : error_set(err, code, "rank 0 has no state to begin with, and reports why");
        if (!rc)
            rc = wk_broadcast(ctx->group.comm, path, sizeof(path), WK_U8, 0, NULL)
                     ? comm_failed(ctx, WK_EPEER, err)
                     : 0;
        if (rc)
            return rc;
        if (!*path && before == INT64_MAX && !ctx->cut.fell_back)
            return start_together(ctx, err);
        if (!*path && failed.code) {
            *err = failed;
            state_none_left(tried, err);
            return failed.code;
        }
        if (!*path)
            return error_set(err, WK_ENOTFOUND,
                             "no checkpoint to go back to: a part of the state was lost with its "
                             "rank, and no checkpoint has been committed; checkpoint.dir and "
                             "checkpoint.every make them, mesh.dp_replicate keeps replicas");
        if (failed.code)
            context_notice(ctx, "%s; taking the one before it, step %lld", failed.text,
                           (long long)checkpoint_step_of(path));
        code = state_load(ctx, path, &own);
        rc = worst(ctx, code, &code, err);
        if (rc)
            return rc;
        if (!code) {
            save_resumed(ctx, damaged);
            return 0;
        }
        if (code != WK_EIO && code != WK_ENOTFOUND)
            return own.code ? (*err = own, own.code)
                            : error_set(err, code, "another rank could not load %s", path);
        if (own.code)
            failed = own;
        else
            (void)error_set(&failed, code, "another rank could not load its part of %s", path);
        before = checkpoint_step_of(path);
        if (!*damaged)
            (void)str_copy(damaged, sizeof(damaged), path);
        ctx->cut.fell_back = true;
    }
}

/* No member has state, or parts of it are missing. */
static int begin_again(struct wk_context *ctx, const struct member *members, struct error *err)
{
    int64_t lost_step = -1;
    for (int i = 0; i < ctx->group.world; i++)
        if ((members[i].trained || members[i].partial) && members[i].step > lost_step)
            lost_step = members[i].step;
    ctx->cut.fell_back = lost_step >= 0;
    ctx->state.partial = ctx->state.partial || ctx->state.trained;
    if (ctx->cut.fell_back)
        context_notice(ctx,
                       "a part of the state at step %lld went with its rank: going back to the "
                       "last checkpoint, in place",
                       (long long)lost_step);
    ctx->state.trained = false;
    int rc = cut_alike(ctx, members) ? 0 : bind_again(ctx, err);
    if (!rc)
        rc = load_together(ctx, err);
    ctx->cut.fell_back = false;
    return rc;
}

int shards_agree(struct wk_context *ctx, struct error *err)
{
    struct member *members;
    int rc = member_gather(ctx, &members, err);
    if (rc)
        return rc;
    int source = whole_set(ctx, members);
    rc = source < 0 ? begin_again(ctx, members, err) : carry_over(ctx, members, source, err);
    free(members);
    struct layout layout = cut_layout(ctx, ctx->group.rank);
    rc = rc ? rc : units_regroup(ctx, &layout, err);
    rc = rc ? rc : units_refresh(ctx, err);
    if (rc)
        return rc;
    handoffs_clear(ctx);
    ctx->state.trained = true;
    ctx->state.partial = false;
    ctx->cut.torn = false;
    ctx->cut.generation = ctx->group.generation;
    return 0;
}
