#include <stdlib.h>
#include <string.h>

#include "libworker/nn/param.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/sharded.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_unit.h"

size_t sharded_elements(const struct sharded *s, int unit)
{
    return s->plan.units[unit].row * (size_t)s->plan.world;
}

void sharded_drop(const struct sharded *s, const struct pages *arena, int unit)
{
    size_t pages = (sharded_elements(s, unit) + SHARD_PAGE - 1) / SHARD_PAGE;
    size_t first = s->plan.units[unit].place, count = pages * SHARD_PAGE;
    pages_drop(arena, first, count < arena->count - first ? count : arena->count - first);
}

size_t sharded_row_at(const struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    return u->place + u->row * (size_t)s->options.rank;
}

float *sharded_row(const struct sharded *s, float *arena, int unit)
{
    return arena + sharded_row_at(s, unit);
}

void sharded_note(struct sharded *s, int code)
{
    if (!s->failure)
        s->failure = code;
}

/* Ends of units: blocks under FSDP with hooks, else the buckets of DDP. */
static int cut_units(struct sharded *s, size_t **ret_ends, int *ret_count, struct error *err)
{
    const struct wk_model *model = s->model;
    size_t n = (size_t)model->n_params;
    size_t *ends = calloc(n, sizeof(*ends));
    struct bucket *buckets = calloc(n, sizeof(*buckets));
    int *bucket_of = calloc(n, sizeof(*bucket_of));
    int count = 0;
    if (!ends || !buckets || !bucket_of) {
        free(ends);
        free(buckets);
        free(bucket_of);
        return error_set(err, WK_ENOMEM, "no memory to cut %zu parameters", n);
    }
    if (s->hooked) {
        for (size_t i = 0; i < n; i++)
            if (i + 1 == n || model->params[i + 1].block != model->params[i].block)
                ends[count++] = i + 1 == n ? model->count : model->params[i + 1].offset;
    } else {
        count = bucket_cut(model->params, model->n_params, model->count, &s->options.sizes, buckets,
                           bucket_of);
        for (int i = 0; i < count; i++)
            ends[count - 1 - i] = buckets[i].offset + buckets[i].count;
    }
    free(buckets);
    free(bucket_of);
    *ret_ends = ends;
    *ret_count = count;
    return 0;
}

/* The optimizer's view: one entry for each piece of a parameter in this rank's shard. */
static void fill_own(struct sharded *s)
{
    for (int i = 0; i < s->model->n_params; i++) {
        const struct param *param = &s->model->params[i];
        struct shard_piece piece =
            shard_piece(&s->plan, s->unit_of[i], s->options.rank, param->offset, param->count);
        s->own_of[i] = -1;
        if (!piece.count)
            continue;
        struct param *own = &s->own[s->n_own];
        *own = *param;
        own->count = piece.count;
        own->offset = piece.at;
        own->data = s->own_params + piece.at;
        own->grad = s->own_grads + piece.at;
        s->own_of[i] = s->n_own++;
    }
}

/* Offset of parameter `index` in both arenas; vectors that stay in float are read elsewhere. */
static size_t place_of(const struct sharded *s, int index)
{
    const struct shard_unit *unit = &s->plan.units[s->unit_of[index]];
    return unit->place + (s->model->params[index].offset - unit->offset);
}

static void bind_pointers(struct sharded *s)
{
    s->model->param_arena = s->params;
    s->model->grad_arena = s->grads;
    s->model->forward_done = false;
    for (int i = 0; i < s->model->n_params; i++) {
        struct param *param = &s->model->params[i];
        param->data = s->params + place_of(s, i);
        param->grad = s->grads + place_of(s, i);
    }
}

static int allocate(struct sharded *s, struct error *err)
{
    size_t n = (size_t)s->model->n_params;
    bool apart = s->options.sharding != SHARDING_ZERO1;
    int rc = pages_init(&s->param_pages, s->plan.padded, true);
    rc = rc ? rc : pages_init(&s->grad_pages, s->plan.padded, true);
    if (!rc && s->options.offload)
        rc = pages_map(&s->own_param_pages, s->plan.shard, s->options.offload, err);
    else if (!rc)
        rc = pages_init(&s->own_param_pages, s->plan.shard, false);
    if (rc && s->options.offload && err->code)
        return rc;
    rc = rc ? rc : pages_init(&s->own_grad_pages, apart ? s->plan.shard : 0, false);
    s->params = s->param_pages.data;
    s->grads = s->grad_pages.data;
    s->own_params = s->own_param_pages.data;
    s->own_grads = apart ? s->own_grad_pages.data : s->grads;
    s->own = calloc(n + 1, sizeof(*s->own));
    s->own_of = calloc(n, sizeof(*s->own_of));
    s->unit_of = calloc(n, sizeof(*s->unit_of));
    s->ready = calloc(n, sizeof(*s->ready));
    s->units = calloc((size_t)s->plan.n_units, sizeof(*s->units));
    s->extras = calloc(s->options.extras, sizeof(*s->extras));
    if (rc || !s->own || !s->own_of || !s->unit_of || !s->ready || !s->units || !s->extras)
        return error_set(err, WK_ENOMEM, "no memory for a shard of %zu parameters", s->plan.shard);
    return 0;
}

static int fill_unit(struct sharded *s, int unit, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < s->model->n_params && !rc; i++)
        if (s->unit_of[i] == unit)
            rc = model_fill(s->model, i, s->params + place_of(s, i), err);
    return rc;
}

/* Keep this rank's row of a unit with initial values in the arena. */
static void keep_row(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    memcpy(s->own_params + u->shard, sharded_row(s, s->params, unit), u->row * sizeof(float));
    if (s->options.sharding == SHARDING_FSDP || narrowing_on(&s->options.narrowing))
        sharded_drop(s, &s->param_pages, unit);
    else
        s->units[unit].gathered = true;
}

/* Set initial values unit by unit, so that a rank has at most one unit of them at a time. */
static int fill_initial(struct sharded *s, struct error *err)
{
    for (int u = 0; u < s->plan.n_units && !s->options.fill_later; u++) {
        int rc = fill_unit(s, u, err);
        if (rc)
            return rc;
        keep_row(s, u);
    }
    s->model->seed_waits = false;
    return 0;
}

int sharded_fill(struct sharded *s, struct wk_comm *comm, struct error *err)
{
    for (int u = 0; u < s->plan.n_units; u++) {
        int32_t code = wk_comm_rank(comm) == 0 ? fill_unit(s, u, err) : 0;
        int rc = wk_broadcast(comm, &code, 1, WK_I32, 0, NULL);
        if (!rc && code)
            return wk_comm_rank(comm) == 0
                       ? code
                       : error_set(err, code, "rank 0 could not read the weights");
        if (!rc)
            rc = wk_broadcast(comm, s->params + s->plan.units[u].place, sharded_elements(s, u),
                              WK_F32, 0, NULL);
        if (rc)
            return error_set(err, rc, "%s", wk_comm_error(comm));
        keep_row(s, u);
    }
    return 0;
}

int sharded_init(struct sharded *s, struct wk_model *model, const struct sharded_options *options,
                 struct error *err)
{
    size_t *ends = NULL;
    int count = 0;
    *s = (struct sharded){.options = *options, .model = model, .next = -1, .factor = 1};
    s->hooked = options->sharding == SHARDING_FSDP && !model_is_custom(model);
    int rc = cut_units(s, &ends, &count, err);
    if (rc)
        return rc;
    rc = shard_plan_init(&s->plan, ends, count, options->world, err);
    free(ends);
    if (!rc)
        rc = allocate(s, err);
    if (rc) {
        sharded_fini(s);
        return rc;
    }
    for (int i = 0; i < model->n_params; i++) {
        s->unit_of[i] = shard_unit_of(&s->plan, model->params[i].offset);
        s->units[s->unit_of[i]].n_params++;
    }
    bind_pointers(s);
    fill_own(s);
    rc = fill_initial(s, err);
    if (!rc)
        rc = sharded_low_init(s, err);
    if (rc)
        sharded_fini(s);
    return rc;
}

void sharded_fini(struct sharded *s)
{
    sharded_low_fini(s);
    groups_close(&s->groups);
    pages_fini(&s->param_pages);
    pages_fini(&s->grad_pages);
    pages_fini(&s->own_param_pages);
    pages_fini(&s->own_grad_pages);
    free(s->own);
    free(s->own_of);
    free(s->unit_of);
    free(s->ready);
    free(s->units);
    free(s->extras);
    shard_plan_fini(&s->plan);
    *s = (struct sharded){0};
}

int sharded_meet(struct sharded *s, struct wk_comm *comm)
{
    int rc = wk_comm_register(comm, s->param_pages.arena);
    rc = rc ? rc : wk_comm_register(comm, s->grad_pages.arena);
    return rc || !s->low.params ? rc : sharded_low_meet(s, comm);
}

int sharded_regroup(struct sharded *s, struct wk_comm *comm, const struct layout *layout,
                    struct error *err)
{
    return groups_make(&s->groups, comm, layout, err);
}

const char *sharded_error(const struct sharded *s)
{
    const char *sentence = wk_comm_error(s->comm);
    if (!*sentence)
        sentence = wk_comm_error(s->groups.column);
    return *sentence ? sentence : wk_comm_error(s->whole);
}
