#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/param.h"
#include "libworker/optim/clip.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/sharded.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/tensor/mapped.h"

static size_t unit_elements(const struct sharded *s, int unit)
{
    return s->plan.units[unit].row * (size_t)s->plan.world;
}

/* Up to where the next unit may begin: whole pages. */
static void drop_unit(const struct sharded *s, const struct pages *arena, int unit)
{
    size_t pages = (unit_elements(s, unit) + SHARD_PAGE - 1) / SHARD_PAGE;
    size_t first = s->plan.units[unit].place, count = pages * SHARD_PAGE;
    pages_drop(arena, first, count < arena->count - first ? count : arena->count - first);
}

static float *row_of(const struct sharded *s, float *arena, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    return arena + u->place + u->row * (size_t)s->options.rank;
}

static void note(struct sharded *s, int code)
{
    if (!s->failure)
        s->failure = code;
}

/* Where units end: blocks under FSDP with hooks, else the buckets of DDP. */
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

/* Where parameter `index` lies in both arenas; vectors that stay in float are read elsewhere. */
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

/* This rank's row of a unit whose initial values are in the arena. */
static void keep_row(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    memcpy(s->own_params + u->shard, row_of(s, s->params, unit), u->row * sizeof(float));
    if (s->options.sharding == SHARDING_FSDP || narrowing_on(&s->options.narrowing))
        drop_unit(s, &s->param_pages, unit);
    else
        s->units[unit].gathered = true;
}

/* Initial values unit by unit, so that no rank ever holds more of them than one. */
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
            rc = wk_broadcast(comm, s->params + s->plan.units[u].place, unit_elements(s, u), WK_F32,
                              0, NULL);
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
    *s = (struct sharded){.options = *options, .model = model, .next = -1};
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

/* Parameters: shard to arena */

static int gather_floats(struct sharded *s, int unit, struct wk_work **ret_work)
{
    const struct shard_unit *place = &s->plan.units[unit];
    float *own = row_of(s, s->params, unit);
    memcpy(own, s->own_params + place->shard, place->row * sizeof(float));
    return wk_all_gather(s->comm, own, s->params + place->place, place->row, WK_F32, ret_work);
}

static void start_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (u->gathered || s->failure)
        return;
    u->gathered = true;
    int rc = s->low.params ? sharded_low_gather(s, unit, &u->gather)
                           : gather_floats(s, unit, &u->gather);
    if (s->options.offload)
        mapped_give_back(s->own_params, s->plan.units[unit].shard, s->plan.units[unit].row);
    if (rc)
        note(s, rc);
}

static int await_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    int rc = wk_wait(u->gather);
    u->gather = NULL;
    if (rc)
        note(s, rc);
    return s->failure;
}

static void release(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (!u->gathered)
        return;
    (void)await_gather(s, unit);
    u->gathered = false;
    if (s->low.params)
        sharded_low_drop(s, unit);
    else
        drop_unit(s, &s->param_pages, unit);
}

static int gather_every_unit(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++)
        start_gather(s, i);
    for (int i = 0; i < s->plan.n_units; i++)
        (void)await_gather(s, i);
    return s->failure;
}

void sharded_use(struct sharded *s, struct wk_comm *comm)
{
    s->whole = comm;
    s->comm = s->groups.row ? s->groups.row : comm;
    s->depth = 0; /* a pass that failed did not leave its blocks */
    sharded_low_hide(s);
}

int sharded_gather_all(struct sharded *s, struct wk_comm *comm)
{
    sharded_use(s, comm);
    if (s->low.params)
        return sharded_low_show(s);
    return s->options.sharding == SHARDING_FSDP ? gather_every_unit(s) : 0;
}

void sharded_release_all(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units && s->options.sharding == SHARDING_FSDP; i++)
        release(s, i);
}

int sharded_refresh(struct sharded *s, struct wk_comm *comm)
{
    s->failure = 0;
    sharded_use(s, comm);
    int rc = s->low.params ? sharded_low_vectors(s) : 0;
    if (rc)
        note(s, rc);
    if (s->options.sharding == SHARDING_FSDP) {
        sharded_release_all(s);
        return s->failure;
    }
    for (int i = 0; i < s->plan.n_units; i++)
        s->units[i].gathered = false;
    return gather_every_unit(s);
}

int sharded_updated(struct sharded *s, struct wk_comm *comm)
{
    return sharded_refresh(s, comm);
}

/* Block 0 may serve a tied head inside the last block's brackets, so it stays for the whole step;
 * the last block is needed again at once. */
static bool stays_after_forward(const struct sharded *s, int unit)
{
    return s->options.keep_gathered || unit == 0 || unit == s->plan.n_units - 1;
}

static void unit_done(struct sharded *s, int unit);

static int before_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    int step = pass == MODEL_FORWARD ? 1 : -1;
    int ahead = s->depth++ ? 0 : s->options.prefetch; /* a tied head's block 0 is no road sign */
    start_gather(s, block);
    for (int next = block + step; ahead-- > 0 && next >= 0 && next < s->plan.n_units; next += step)
        start_gather(s, next);
    int rc = await_gather(s, block);
    return rc ? error_set(err, rc, "gathering block %d: %s", block, sharded_error(s)) : 0;
}

static int after_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    (void)err;
    s->depth--;
    if (pass == MODEL_FORWARD) {
        if (!stays_after_forward(s, block))
            release(s, block);
        return 0;
    }
    if (block == 0)
        return 0; /* sharded_flush: its gradient may still grow */
    if (s->following && s->next == block)
        unit_done(s, s->next--);
    release(s, block);
    return 0;
}

int sharded_empty_pass(struct sharded *s, enum model_pass pass, struct error *err)
{
    int n = s->plan.n_units, rc = 0;
    s->depth = 0;
    for (int i = 0; i < n && !rc && s->hooked; i++) {
        int block = pass == MODEL_FORWARD ? i : n - 1 - i;
        rc = before_block(s, block, pass, err);
        rc = rc ? rc : after_block(s, block, pass, err);
    }
    return rc;
}

/* Gradients: arena to shard */

static int sum_column(struct sharded *s, int unit, struct wk_work **ret_work)
{
    if (s->low.params)
        return sharded_low_column(s, unit, ret_work);
    return wk_all_reduce(s->groups.column, row_of(s, s->grads, unit), s->plan.units[unit].row,
                         WK_F32, WK_SUM, ret_work);
}

/* The sum over this replica has to be there before that over the replicas can start. */
static void advance(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (!u->reduced || u->advanced)
        return;
    int rc = wk_wait(u->reduce);
    u->reduce = NULL;
    u->advanced = true;
    s->low.wild = s->low.wild || u->wild;
    if (!rc && s->groups.column && !s->failure)
        rc = sum_column(s, unit, &u->reduce);
    if (rc)
        note(s, rc);
}

static void collect(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    const struct shard_unit *place = &s->plan.units[unit];
    if (!u->reduced || u->collected)
        return;
    advance(s, unit);
    int rc = wk_wait(u->reduce);
    u->reduce = NULL;
    u->collected = true;
    s->reduces--;
    s->low.wild = s->low.wild || u->wild;
    if (rc)
        note(s, rc);
    if (s->options.sharding == SHARDING_ZERO1)
        return;
    const float *sum = row_of(s, s->grads, unit);
    float *own = s->own_grads + place->shard;
    if (s->low.grads)
        sharded_low_collect(s, unit);
    for (size_t i = 0; i < place->row && !s->low.grads; i++)
        own[i] += sum[i];
    drop_unit(s, &s->grad_pages, unit);
    if (s->low.grads)
        sharded_low_drop_grads(s, unit);
}

static int sum_floats(struct sharded *s, int unit, struct wk_work **ret_work)
{
    const struct shard_unit *place = &s->plan.units[unit];
    return wk_reduce_scatter(s->comm, s->grads + place->place, row_of(s, s->grads, unit),
                             place->row, WK_F32, WK_SUM, ret_work);
}

static void start_reduce(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    for (int i = s->plan.n_units - 1;
         i > unit && s->reduces >= SHARDED_REDUCES_MAX && s->options.sharding != SHARDING_ZERO1;
         i--)
        collect(s, i);
    if (s->groups.column && unit + 1 < s->plan.n_units)
        advance(s, unit + 1);
    u->reduced = true;
    s->reduces++;
    if (s->failure)
        return;
    int rc =
        s->low.params ? sharded_low_reduce(s, unit, &u->reduce) : sum_floats(s, unit, &u->reduce);
    if (rc)
        note(s, rc);
}

/* This rank's gradients of a unit are final. */
static void unit_done(struct sharded *s, int unit)
{
    if (s->low.grads)
        sharded_low_take(s, unit);
    if (s->reducing)
        start_reduce(s, unit);
}

static void start_due(struct sharded *s)
{
    while (s->next >= 0 && s->units[s->next].missing == 0)
        unit_done(s, s->next--);
}

void sharded_begin(struct sharded *s, struct wk_comm *comm, bool last)
{
    sharded_use(s, comm);
    s->passing = true;
    s->last = last;
    s->reducing = last || s->options.sharding != SHARDING_ZERO1;
    s->following = s->reducing || s->low.grads;
    if (!s->following)
        return;
    s->next = s->plan.n_units - 1;
    s->reduces = 0;
    memset(s->ready, 0, (size_t)s->model->n_params * sizeof(*s->ready));
    for (int i = 0; i < s->plan.n_units; i++) {
        s->units[i].missing = s->units[i].n_params;
        s->units[i].reduced = s->units[i].advanced = s->units[i].collected = false;
    }
}

void sharded_ready(struct sharded *s, int index)
{
    if (!s->passing || !s->following || s->ready[index])
        return;
    s->ready[index] = true;
    s->units[s->unit_of[index]].missing--;
    /* Under hooks the end of a block is what counts: gathers and sums then follow each other in the
     * same order on every rank. */
    if (!s->hooked)
        start_due(s);
}

void sharded_flush(struct sharded *s)
{
    while (s->following && s->next >= 0)
        unit_done(s, s->next--);
    if (s->last && !s->failure) {
        int rc =
            wk_all_reduce(s->whole, s->extras, s->options.extras, WK_F32, WK_SUM, &s->extras_work);
        if (rc)
            note(s, rc);
    }
    if (s->hooked)
        sharded_release_all(s);
}

/* ZERO1 sums in place: rows move together, each to a place at or before its own. */
static void compact_rows(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        const struct shard_unit *unit = &s->plan.units[i];
        memmove(s->own_grads + unit->shard, row_of(s, s->grads, i), unit->row * sizeof(float));
    }
}

int sharded_finish(struct sharded *s)
{
    if (!s->passing)
        return s->failure;
    for (int i = s->plan.n_units - 1; i >= 0 && s->reducing; i--)
        collect(s, i);
    int rc = wk_wait(s->extras_work);
    s->extras_work = NULL;
    if (rc)
        note(s, rc);
    if (s->reducing && s->options.sharding == SHARDING_ZERO1 && !s->failure && s->low.grads)
        sharded_low_compact(s);
    else if (s->reducing && s->options.sharding == SHARDING_ZERO1 && !s->failure)
        compact_rows(s);
    if (s->last && s->low.params && !s->failure && (rc = sharded_low_agree(s)) != 0)
        note(s, rc);
    s->passing = s->reducing = s->following = s->last = false;
    return s->failure;
}

bool sharded_finite(const struct sharded *s)
{
    return !s->low.wild;
}

void sharded_drain(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        (void)wk_wait(s->units[i].gather);
        (void)wk_wait(s->units[i].reduce);
        s->units[i].gather = s->units[i].reduce = NULL;
        s->units[i].reduced = s->units[i].advanced = s->units[i].collected = false;
    }
    (void)wk_wait(s->extras_work);
    s->extras_work = NULL;
    s->passing = s->reducing = s->following = s->last = false;
    s->reduces = 0;
    s->next = -1;
}

int sharded_squares(struct sharded *s, double *ret)
{
    double squares = s->low.grads
                         ? sharded_low_squares(s)
                         : clip_sum_squares(s->model->kernels, s->own_grads, s->plan.shard);
    int rc = wk_all_reduce(s->comm, &squares, 1, WK_F64, WK_SUM, NULL);
    if (!rc)
        *ret = squares;
    return rc;
}

void sharded_clear(struct sharded *s)
{
    memset(s->extras, 0, s->options.extras * sizeof(*s->extras));
    sharded_low_clear(s);
    if (s->options.sharding == SHARDING_ZERO1 && !sharded_low_own(s)) {
        memset(s->grads, 0, s->plan.padded * sizeof(float));
        return;
    }
    if (s->own_grads != s->grads && !s->low.grads)
        memset(s->own_grads, 0, s->plan.shard * sizeof(float));
    pages_drop(&s->grad_pages, 0, s->plan.padded);
}

struct model_hooks sharded_hooks(struct sharded *s)
{
    return s->hooked ? (struct model_hooks){before_block, after_block, s} : (struct model_hooks){0};
}
