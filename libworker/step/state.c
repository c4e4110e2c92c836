/* What must survive, as tensors and numbers; and how the members of a generation come to agree. */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/step/context.h"

void state_numbers(const struct wk_context *ctx, struct train_numbers *ret)
{
    struct train_numbers numbers = ctx->numbers;
    numbers.optimizer_steps = ctx->optimizer ? ctx->optimizer->steps : 0;
    numbers.n_loaders = ctx->n_loaders;
    for (int i = 0; i < ctx->n_loaders; i++)
        numbers.loaders[i] = ctx->loaders[i]->committed;
    numbers.n_schedulers = ctx->n_schedulers;
    for (int i = 0; i < ctx->n_schedulers; i++)
        numbers.schedulers[i] = ctx->schedulers[i]->step;
    mixed_numbers(ctx, &numbers);
    *ret = numbers;
}

void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers)
{
    int64_t total_steps = ctx->numbers.total_steps;
    ctx->numbers = *numbers;
    /* The program's word of today counts, not that of the run the state comes from. */
    ctx->numbers.total_steps = total_steps;
    ctx->rng = numbers->rng;
    mixed_adopt(ctx, numbers);
    if (ctx->optimizer)
        ctx->optimizer->steps = numbers->optimizer_steps;
    for (int i = 0; i < ctx->n_loaders; i++)
        ctx->loaders[i]->cursor = ctx->loaders[i]->committed = numbers->loaders[i];
    for (int i = 0; i < ctx->n_schedulers; i++)
        scheduler_set_step(ctx->schedulers[i], numbers->schedulers[i]);
    ctx->has_state = true;
    ctx->is_partial = false;
}

static int name_tensor(struct checkpoint_tensor *tensor, const char *prefix,
                       const struct param *param, struct error *err)
{
    if (str_printf(tensor->name, sizeof(tensor->name), "%s.%s", prefix, param->name))
        return error_set(err, WK_EINVAL, "the name of parameter %s is too long", param->name);
    return 0;
}

/* A parameter and the piece of it that is on this rank. */
struct held {
    const struct param *param;
    const struct param *own; /* NULL: nothing of it */
    size_t first;
};

static int add_param(struct checkpoint_tensor *tensor, const struct held *held, struct error *err)
{
    *tensor = (struct checkpoint_tensor){
        .dtype = WK_F32,
        .dims = held->param->dims,
        .first = (int64_t)held->first,
        .data = held->own ? held->own->data : NULL,
        .bytes = held->own ? held->own->count * sizeof(float) : 0,
    };
    memcpy(tensor->shape, held->param->shape, sizeof(tensor->shape));
    return name_tensor(tensor, "model", held->param, err);
}

/* Nothing where this parameter has no such state. */
static int add_state(struct checkpoint_tensor *tensors, int *count,
                     const struct wk_optimizer *optimizer, int state, const struct held *held,
                     struct error *err)
{
    const struct param *param = held->param;
    struct optimizer_view view = {.dims = param->dims};
    memcpy(view.shape, param->shape, sizeof(view.shape));
    if (held->own)
        view = optimizer_state_view(optimizer, state, held->own);
    struct checkpoint_tensor *tensor = &tensors[*count];
    char prefix[64];
    if (!view.dims)
        return 0;
    ++*count;
    *tensor = (struct checkpoint_tensor){
        .dtype = WK_F32,
        .dims = view.dims,
        .first = (int64_t)(held->first + view.first),
        .data = view.data,
        .bytes = view.count * sizeof(float),
    };
    memcpy(tensor->shape, view.shape, sizeof(tensor->shape));
    (void)str_printf(prefix, sizeof(prefix), "optimizer.%s",
                     optimizer_state_name(optimizer, state));
    return name_tensor(tensor, prefix, param, err);
}

static struct held held_of(struct wk_context *ctx, int index)
{
    struct held held = {.param = &ctx->model->params[index]};
    held.own = strategy_own(&ctx->strategy, index, &held.first);
    return held;
}

_Static_assert((int)PARAM_DIMS_MAX == (int)CHECKPOINT_DIMS_MAX, "shapes are copied whole");
_Static_assert((int)OPTIMIZER_DIMS_MAX == (int)CHECKPOINT_DIMS_MAX, "shapes are copied whole");

int state_tensors(struct wk_context *ctx, struct checkpoint_tensor **ret, int *ret_count,
                  struct error *err)
{
    const struct wk_model *model = ctx->model;
    int n_states = ctx->optimizer ? ctx->optimizer->ops->n_states : 0;
    size_t most = (size_t)model->n_params * (1 + (size_t)n_states);
    struct checkpoint_tensor *tensors = calloc(most + 1, sizeof(*tensors));
    if (!tensors)
        return error_set(err, WK_ENOMEM, "no memory for a table of %zu tensors", most);
    int count = 0, rc = 0;
    for (int i = 0; i < model->n_params && !rc; i++) {
        struct held held = held_of(ctx, i);
        rc = add_param(&tensors[count++], &held, err);
    }
    for (int s = 0; s < n_states; s++)
        for (int i = 0; i < model->n_params && !rc; i++) {
            struct held held = held_of(ctx, i);
            rc = add_state(tensors, &count, ctx->optimizer, s, &held, err);
        }
    if (rc) {
        free(tensors);
        return rc;
    }
    *ret = tensors;
    *ret_count = count;
    return 0;
}

int state_load(struct wk_context *ctx, const char *path, struct error *err)
{
    struct checkpoint_tensor *tensors;
    struct train_numbers numbers;
    int count;
    int rc = state_tensors(ctx, &tensors, &count, err);
    if (rc)
        return rc;
    rc = checkpoint_load(path, tensors, count, &numbers, err);
    free(tensors);
    if (!rc && (numbers.n_loaders != ctx->n_loaders || numbers.n_schedulers != ctx->n_schedulers))
        rc = error_set(err, WK_EMISMATCH,
                       "checkpoint %s is of %lld loaders and %lld schedulers, not %d and %d", path,
                       (long long)numbers.n_loaders, (long long)numbers.n_schedulers,
                       ctx->n_loaders, ctx->n_schedulers);
    if (!rc)
        state_adopt(ctx, &numbers);
    return rc;
}

/* Older checkpoints beside `path`, newest first, until one loads. */
static int load_older(struct wk_context *ctx, const char *path, struct error *err)
{
    char dir[CHECKPOINT_PATH_MAX];
    int64_t *steps, before = checkpoint_step_of(path);
    int count;
    if (str_copy(dir, sizeof(dir), path) || !strrchr(dir, '/'))
        return err->code;
    *strrchr(dir, '/') = 0;
    if (checkpoint_list(dir, &steps, &count, NULL))
        return err->code;
    int rc = err->code;
    for (int i = count - 1; i >= 0 && (rc == WK_EIO || rc == WK_ENOTFOUND); i--) {
        char older[CHECKPOINT_PATH_MAX];
        if (steps[i] >= before || checkpoint_path(dir, steps[i], older))
            continue;
        context_notice(ctx, "%s; taking the one before it, step %lld", err->text,
                       (long long)steps[i]);
        *err = (struct error){0};
        rc = state_load(ctx, older, err);
    }
    free(steps);
    return rc;
}

int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err)
{
    const char *dir = settings_text(&ctx->settings, SETTING_CHECKPOINT_DIR);
    int64_t *steps;
    int count;
    *ret = 0;
    if (!*dir)
        return error_set(err, WK_EINVAL, "resume_from is \"latest\" without a checkpoint.dir");
    int rc = checkpoint_list(dir, &steps, &count, err);
    if (!rc && count)
        rc = checkpoint_path(dir, steps[count - 1], ret);
    if (!rc)
        free(steps);
    return rc;
}

/* Training state for a gang in which nobody has any: the checkpoint to resume from, or the start.
 */
static int first_state(struct wk_context *ctx, struct error *err)
{
    char path[CHECKPOINT_PATH_MAX];
    const char *wanted = settings_text(&ctx->settings, SETTING_RESUME_FROM);
    if (*ctx->resume_from)
        wanted = ctx->resume_from;
    int rc = 0;
    if (strcmp(wanted, "latest") == 0) {
        rc = state_newest(ctx, path, err);
        wanted = path;
    }
    if (rc)
        return rc;
    if (!*wanted && ctx->is_partial)
        return error_set(err, WK_ESTATE,
                         "the last rank that held the training state was lost while it was sending "
                         "it, and there is no checkpoint");
    if (!*wanted) {
        rc = strategy_fill(&ctx->strategy, ctx->comm, err);
        ctx->has_state = !rc;
        return rc;
    }
    rc = state_load(ctx, wanted, err);
    if (rc == WK_EIO || rc == WK_ENOTFOUND)
        rc = load_older(ctx, wanted, err);
    if (!rc) {
        ctx->saved_step = ctx->numbers.step;
        context_notice(ctx, "resumed from step %lld", (long long)ctx->numbers.step);
    }
    return rc;
}

static int64_t digest(const struct wk_model *model)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < model->n_params; i++) {
        for (const char *c = model->params[i].name; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        hash = (hash ^ model->params[i].count) * 1099511628211u;
    }
    return (int64_t)hash;
}

static struct member describe(const struct wk_context *ctx)
{
    return (struct member){
        .has_state = ctx->has_state,
        .is_partial = ctx->is_partial,
        .step = ctx->numbers.step,
        .windows = ctx->numbers.step + ctx->scaler.skipped,
        .count = (int64_t)ctx->model->count,
        .params = ctx->model->n_params,
        .loaders = ctx->n_loaders,
        .schedulers = ctx->n_schedulers,
        .states = ctx->optimizer ? ctx->optimizer->ops->n_states : -1,
        .digest = digest(ctx->model),
        .born = (int64_t)ctx->born,
        .part = ctx->torn ? -1 : ctx->strategy.shard.options.rank,
        .parts_of = ctx->strategy.shard.options.world,
    };
}

static int check_alike(const struct wk_context *ctx, const struct member *members,
                       struct error *err)
{
    const struct member *own = &members[ctx->rank];
    for (int i = 0; i < ctx->world; i++) {
        const struct member *other = &members[i];
        if (other->count != own->count || other->digest != own->digest ||
            other->params != own->params)
            return error_set(err, WK_EMISMATCH,
                             "rank %d prepared another model: %lld parameters in %lld tensors, "
                             "rank %d has %lld in %lld",
                             i, (long long)other->count, (long long)other->params, ctx->rank,
                             (long long)own->count, (long long)own->params);
        if (other->loaders != own->loaders || other->schedulers != own->schedulers ||
            other->states != own->states)
            return error_set(err, WK_EMISMATCH,
                             "rank %d prepared other loaders, schedulers or another optimizer", i);
    }
    return 0;
}

/* The member whose state all continue with: the furthest, the lowest rank among equals. When nobody
 * has any, the lowest rank that still holds initial values, if there is one. Whether it has to be
 * sent goes to *ret_differ. */
static int choose_source(const struct member *members, int world, bool *ret_differ)
{
    int source = -1, initial = -1;
    *ret_differ = false;
    for (int i = 0; i < world; i++) {
        if (members[i].has_state && (source < 0 || members[i].windows > members[source].windows))
            source = i;
        if (!members[i].is_partial && initial < 0)
            initial = i;
    }
    for (int i = 0; i < world; i++)
        if (source < 0 || !members[i].has_state || members[i].windows != members[source].windows)
            *ret_differ = true;
    if (source >= 0)
        return source;
    return initial >= 0 ? initial : 0;
}

/* What the source says before its tensors. */
struct word {
    struct train_numbers numbers;
    double loss;
    int32_t code; /* it has nothing to send: the reason */
    char text[512];
};

/* An array of the state. Broadcast in pieces, so that a rank which only listens needs room for one.
 */
struct array {
    float *data;
    size_t count;
};

enum { PIECE_ELEMENTS = 1 << 22 };

/* The parameters, then each state of the optimizer: one array for all parameters, or one for each.
 * malloc'd, the caller frees. */
static int state_arrays(const struct wk_context *ctx, struct array **ret, int *ret_count,
                        struct error *err)
{
    const struct wk_optimizer *optimizer = ctx->optimizer;
    int n_states = optimizer ? optimizer->ops->n_states : 0, n = 0;
    size_t most = 1 + (size_t)n_states * (size_t)ctx->model->n_params;
    struct array *arrays = calloc(most, sizeof(*arrays));
    if (!arrays)
        return error_set(err, WK_ENOMEM, "no memory for a table of %zu arrays", most);
    arrays[n++] = (struct array){ctx->strategy.params, ctx->model->count};
    for (int s = 0; s < n_states; s++) {
        if (optimizer->state[s]) {
            arrays[n++] = (struct array){optimizer->state[s], ctx->model->count};
            continue;
        }
        for (int i = 0; i < ctx->model->n_params; i++) {
            struct optimizer_view view = optimizer_state_view(optimizer, s, &ctx->model->params[i]);
            if (view.dims)
                arrays[n++] = (struct array){view.data, view.count};
        }
    }
    *ret = arrays;
    *ret_count = n;
    return 0;
}

/* How a rank takes part while the source sends. Whoever may be needed as the next source must not
 * lose what it holds before all of the new has come: the source may die on the way. */
enum part {
    PART_SEND,
    PART_LISTEN, /* it holds this very state: what comes is dropped */
    PART_STAGE,  /* it holds an older state: what comes waits aside until it is whole */
    PART_FILL,   /* it has nothing to lose: in place */
};

struct transfer {
    struct wk_comm *comm;
    int source;
    enum part part;
    float *aside; /* LISTEN: one piece; STAGE: everything, array after array */
};

static int transfer_init(struct wk_context *ctx, const struct member *members, int source,
                         struct transfer *ret, struct error *err)
{
    struct array *arrays;
    int count;
    int rc = state_arrays(ctx, &arrays, &count, err);
    if (rc)
        return rc;
    size_t all = 0;
    for (int i = 0; i < count; i++)
        all += arrays[i].count;
    free(arrays);
    *ret = (struct transfer){.comm = ctx->comm, .source = source, .part = PART_FILL};
    const struct member *own = &members[ctx->rank];
    if (ctx->rank == source)
        ret->part = PART_SEND;
    else if (own->has_state)
        ret->part = own->windows == members[source].windows ? PART_LISTEN : PART_STAGE;
    size_t wanted = ret->part == PART_STAGE ? all : all < PIECE_ELEMENTS ? all : PIECE_ELEMENTS;
    if (ret->part == PART_STAGE || ret->part == PART_LISTEN)
        ret->aside = malloc(wanted * sizeof(float));
    if (ret->part == PART_LISTEN && !ret->aside)
        return error_set(err, WK_ENOMEM, "no memory for a piece of the state");
    if (ret->part == PART_STAGE && !ret->aside) {
        context_notice(ctx, "no memory to keep step %lld until step %lld has come",
                       (long long)own->step, (long long)members[source].step);
        ret->part = PART_FILL;
    }
    return 0;
}

static int transfer_run(const struct transfer *transfer, const struct array *arrays, int count)
{
    int rc = 0;
    float *aside = transfer->aside;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < arrays[i].count && !rc; at += PIECE_ELEMENTS) {
            size_t left = arrays[i].count - at;
            size_t n = left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS;
            float *to = aside ? aside : arrays[i].data + at;
            rc = wk_broadcast(transfer->comm, to, n, WK_F32, transfer->source, NULL);
            if (transfer->part == PART_STAGE)
                aside += n;
        }
    return rc;
}

static void take_staged(const struct transfer *transfer, const struct array *arrays, int count)
{
    const float *from = transfer->aside;
    for (int i = 0; i < count; i++) {
        memcpy(arrays[i].data, from, arrays[i].count * sizeof(float));
        from += arrays[i].count;
    }
}

static int send_tensors(struct wk_context *ctx, const struct transfer *transfer, struct error *err)
{
    struct array *arrays;
    int count;
    int rc = state_arrays(ctx, &arrays, &count, err);
    if (rc)
        return rc;
    if (transfer->part == PART_FILL) {
        ctx->has_state = false;
        ctx->is_partial = true;
    }
    rc = transfer_run(transfer, arrays, count);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->comm));
    else if (transfer->part == PART_STAGE)
        take_staged(transfer, arrays, count);
    free(arrays);
    return rc;
}

static int spread(struct wk_context *ctx, const struct member *members, int source,
                  struct error *err)
{
    struct word word = {0};
    struct transfer transfer;
    int rc = transfer_init(ctx, members, source, &transfer, err);
    if (rc)
        return rc;
    if (ctx->rank == source) {
        struct error why = {0};
        word.code = members[source].has_state ? 0 : first_state(ctx, &why);
        (void)str_copy(word.text, sizeof(word.text), why.text);
        state_numbers(ctx, &word.numbers);
        word.loss = ctx->loss;
    }
    rc = wk_broadcast(ctx->comm, &word, sizeof(word), WK_U8, source, NULL);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->comm));
    else if (word.code)
        rc = error_set(err, word.code, "%s", word.text);
    else
        rc = send_tensors(ctx, &transfer, err);
    free(transfer.aside);
    if (rc)
        return rc;
    state_adopt(ctx, &word.numbers);
    ctx->loss = word.loss;
    return 0;
}

int state_gather(struct wk_context *ctx, struct member **ret, struct error *err)
{
    struct member own = describe(ctx), *members;
    members = calloc((size_t)ctx->world, sizeof(*members));
    if (!members)
        return error_set(err, WK_ENOMEM, "no memory to compare %d members", ctx->world);
    int rc = wk_all_gather(ctx->comm, &own, members, sizeof(own) / sizeof(int64_t), WK_I64, NULL);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->comm));
    else
        rc = check_alike(ctx, members, err);
    if (rc)
        free(members);
    else
        *ret = members;
    return rc;
}

int state_agree(struct wk_context *ctx, struct error *err)
{
    if (ctx->strategy.is_sharded)
        return state_agree_shards(ctx, err);
    struct member *members;
    int rc = state_gather(ctx, &members, err);
    if (rc)
        return rc;
    bool differ;
    int source = choose_source(members, ctx->world, &differ);
    if (differ)
        rc = spread(ctx, members, source, err);
    free(members);
    return rc ? rc : strategy_refresh(&ctx->strategy, ctx->comm);
}
