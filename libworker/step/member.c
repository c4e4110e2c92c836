#include "libworker/step/member.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/step/agree_memory.h"
#include "libworker/step/context.h"
#include "libworker/step/hand_off.h"

static int64_t digest(const struct wk_model *model)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < model->n_params; i++) {
        for (const char *c = model->params[i].name; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        hash = (hash ^ model->params[i].count) * 1099511628211u;
        hash = (hash ^ model_reads_low(&model->params[i])) * 1099511628211u;
        hash = (hash ^ (i < model_trained(model))) * 1099511628211u;
    }
    for (int i = 0; i < model->buffers.n; i++) {
        for (const char *c = model->buffers.list[i].name; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        hash = (hash ^ model->buffers.list[i].count) * 1099511628211u;
    }
    return (int64_t)hash;
}

static struct member describe(const struct wk_context *ctx)
{
    struct units_count count = units_count(ctx);
    struct member member = {
        .trained = ctx->state.trained,
        .partial = ctx->state.partial,
        .step = ctx->state.numbers.step,
        .windows = count.windows,
        .taken = count.taken,
        .units = ctx->prepared.n_units,
        .loaders = ctx->prepared.n_loaders,
        .schedulers = ctx->prepared.n_schedulers,
        .cut_generation = (int64_t)ctx->cut.generation,
        .part = ctx->cut.torn ? -1 : ctx->cut.part,
        .parts_of = ctx->cut.parts,
        .n_handoffs = ctx->cut.n_handoffs,
    };
    for (int i = 0; i < ctx->cut.n_handoffs; i++)
        member.handoffs[i] = ctx->cut.handoffs[i]->part;
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        const struct unit *unit = &ctx->prepared.units[i];
        member.done += unit->numbers.done;
        member.of[i] = (struct member_unit){
            .count = (int64_t)unit->model->count,
            .params = unit->model->n_params,
            .states = unit->optimizer ? unit->optimizer->ops->n_states : -1,
            .digest = digest(unit->model),
        };
    }
    return member;
}

static int check_units(const struct wk_context *ctx, const struct member *own,
                       const struct member *other, int rank, struct error *err)
{
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        const struct member_unit *a = &own->of[i], *b = &other->of[i];
        char which[32] = "another model";
        if (ctx->prepared.n_units > 1)
            (void)str_printf(which, sizeof(which), "another model %d", i + 1);
        if (a->count != b->count || a->digest != b->digest || a->params != b->params)
            return error_set(err, WK_EMISMATCH,
                             "rank %d prepared %s: %lld parameters in %lld tensors, rank %d has "
                             "%lld in %lld",
                             rank, which, (long long)b->count, (long long)b->params,
                             ctx->group.rank, (long long)a->count, (long long)a->params);
    }
    return 0;
}

static bool same_rest(const struct wk_context *ctx, const struct member *a, const struct member *b)
{
    bool same = a->loaders == b->loaders && a->schedulers == b->schedulers;
    for (int i = 0; i < ctx->prepared.n_units; i++)
        same = same && a->of[i].states == b->of[i].states;
    return same;
}

static int check_alike(const struct wk_context *ctx, const struct member *members,
                       struct error *err)
{
    const struct member *own = &members[ctx->group.rank];
    for (int i = 0; i < ctx->group.world; i++) {
        const struct member *other = &members[i];
        if (other->units != own->units)
            return error_set(err, WK_EMISMATCH, "rank %d prepared %lld models, rank %d has %lld", i,
                             (long long)other->units, ctx->group.rank, (long long)own->units);
        int rc = check_units(ctx, own, other, i, err);
        if (!rc && !same_rest(ctx, own, other))
            rc = error_set(err, WK_EMISMATCH,
                           "rank %d prepared other loaders, schedulers or another optimizer", i);
        if (rc)
            return rc;
    }
    return 0;
}

bool member_level(const struct member *a, const struct member *b)
{
    return a->windows == b->windows && a->step == b->step && a->done == b->done;
}

/* A member that has asked for the next batch is further than one that has not. This is also true
 * after a step in which every window was skipped, which does not count. */
bool member_further(const struct member *a, const struct member *b)
{
    if (a->windows != b->windows || a->step != b->step)
        return a->windows > b->windows || (a->windows == b->windows && a->step > b->step);
    return a->done < b->done;
}

void member_announce(const struct wk_context *ctx, struct announcement *ret)
{
    state_numbers(ctx, &ret->numbers);
    for (int i = 0; i < ctx->prepared.n_units; i++)
        ret->losses[i] = ctx->prepared.units[i].loss;
}

void member_adopt(struct wk_context *ctx, const struct announcement *announcement)
{
    state_adopt(ctx, &announcement->numbers);
    for (int i = 0; i < ctx->prepared.n_units; i++)
        ctx->prepared.units[i].loss = announcement->losses[i];
}

int member_gather(struct wk_context *ctx, struct member **ret, struct error *err)
{
    struct member own = describe(ctx), *members;
    members = calloc((size_t)ctx->group.world, sizeof(*members));
    int rc = memory_agree(ctx, members, "compare the members", err);
    if (!rc) {
        rc = wk_all_gather(ctx->group.comm, &own, members, sizeof(own) / sizeof(int64_t), WK_I64,
                           NULL);
        rc = rc ? error_set(err, rc, "%s", wk_comm_error(ctx->group.comm))
                : check_alike(ctx, members, err);
    }
    if (rc)
        free(members);
    else
        *ret = members;
    return rc;
}
