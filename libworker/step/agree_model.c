#include "libworker/step/agree_model.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/murmur3.h"
#include "common/base/str.h"
#include "libworker/nn/words.h"
#include "libworker/step/agree_memory.h"
#include "libworker/step/context.h"

static int failed(const struct wk_context *ctx, int rc, struct error *err)
{
    return error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
}

static int64_t digest_of(const void *data, size_t bytes)
{
    uint64_t hash[2];
    murmur3(data, bytes, hash);
    return (int64_t)hash[0];
}

static int budgets_agree(struct wk_context *ctx, struct error *err)
{
    int64_t bytes[NUMBERS_UNITS_MAX] = {0};
    struct unit *unit;
    units_each(unit, ctx)
        bytes[unit_number(unit) - 1] = unit->model->recompute_bytes;
    int rc = wk_broadcast(ctx->group.comm, bytes, NUMBERS_UNITS_MAX, WK_I64, 0, NULL);
    if (rc)
        return failed(ctx, rc, err);
    units_each(unit, ctx) {
        int64_t first = bytes[unit_number(unit) - 1];
        if (unit->model->recompute == WK_RECOMPUTE_WITHIN && first > 0)
            (void)wk_model_recompute_by(unit->model, WK_RECOMPUTE_WITHIN, first);
    }
    return 0;
}

/* The largest share of a rank, and its length; 0 without a loader to train with. */
static void sizes_of(const struct wk_context *ctx, int64_t *ret_samples, int64_t *ret_length)
{
    *ret_samples = *ret_length = 0;
    for (int i = 0; i < ctx->prepared.n_loaders && !*ret_samples; i++) {
        const struct wk_loader *loader = ctx->prepared.loaders[i];
        if (loader->options.evaluation)
            continue;
        *ret_samples = (loader->batch_asked + ctx->group.world - 1) / ctx->group.world;
        *ret_length = loader->length;
    }
}

/* A unit's words. */
struct words {
    const struct words_ops *ops; /* NULL: nothing is known of the model */
    int64_t *lines;              /* [count], by digest */
    int64_t count;
    int64_t pass; /* by digest; 0: not to be compared */
};

/* Line `line`; line -1: of the pass. */
static void say(const struct wk_context *ctx, const struct unit *unit, const struct words *words,
                int64_t line, char ret[MODEL_LINE_MAX])
{
    int64_t samples, length;
    memset(ret, 0, MODEL_LINE_MAX);
    sizes_of(ctx, &samples, &length);
    if (!words->ops || line >= words->count)
        (void)str_copy(ret, MODEL_LINE_MAX, "nothing more");
    else if (line < 0)
        words->ops->pass(unit->model, samples, length, ret);
    else
        words->ops->line(unit->model, (int)line, ret);
}

static int words_new(struct wk_context *ctx, const struct unit *unit, struct words *ret,
                     struct error *err)
{
    char line[MODEL_LINE_MAX];
    *ret = (struct words){.ops = unit->model->ops->words};
    ret->count = ret->ops ? ret->ops->lines(unit->model) : 0;
    ret->lines = calloc((size_t)ret->count + 1, sizeof(*ret->lines));
    int rc = memory_agree(ctx, ret->lines, "compare the models", err);
    if (rc) {
        free(ret->lines);
        return rc;
    }
    for (int64_t i = 0; i < ret->count; i++) {
        say(ctx, unit, ret, i, line);
        ret->lines[i] = digest_of(line, strlen(line));
    }
    if (!ctx->prepared.compared) {
        say(ctx, unit, ret, -1, line);
        ret->pass = digest_of(line, strlen(line)) | 1;
    }
    return 0;
}

/* The first of this rank's lines that is another one than rank 0's. */
static int first_apart(struct wk_context *ctx, const struct words *words, int64_t *ret_line,
                       struct error *err)
{
    struct wk_bytes own = {words->lines, (size_t)words->count * sizeof(*words->lines)};
    struct wk_bytes theirs = own;
    int rc = wk_broadcast_object(ctx->group.comm, &theirs, 0);
    if (rc)
        return failed(ctx, rc, err);
    const int64_t *lines = theirs.data;
    int64_t count = (int64_t)(theirs.bytes / sizeof(*lines)), line = 0;
    while (line < words->count && line < count && words->lines[line] == lines[line])
        line++;
    if (theirs.data != own.data)
        free(theirs.data);
    *ret_line = line;
    return 0;
}

/* The line to show: what the rank that differs found. */
static int line_apart(struct wk_context *ctx, const struct words *words, int rank, int64_t *ret,
                      struct error *err)
{
    int rc = first_apart(ctx, words, ret, err);
    if (rc)
        return rc;
    rc = wk_broadcast(ctx->group.comm, ret, 1, WK_I64, rank, NULL);
    if (rc)
        return failed(ctx, rc, err);
    return 0;
}

/* A difference that all ranks found: of the pass, or of the lines. */
struct difference {
    int rank;
    bool of_pass;
};

static int refuse_model(struct wk_context *ctx, const struct unit *unit, const struct words *words,
                        const struct difference *found, struct error *err)
{
    char own[MODEL_LINE_MAX];
    int64_t line = -1;
    char(*all)[MODEL_LINE_MAX] = calloc((size_t)ctx->group.world, sizeof(*all));
    int rc = memory_agree(ctx, all, "compare the models", err);
    if (!rc && !found->of_pass)
        rc = line_apart(ctx, words, found->rank, &line, err);
    if (!rc) {
        say(ctx, unit, words, line, own);
        rc = wk_all_gather(ctx->group.comm, own, all, sizeof(own), WK_U8, NULL);
        rc = rc ? failed(ctx, rc, err)
                : error_set(err, WK_EMISMATCH,
                            "ranks differ in %s of model %d: \"%s\" on rank 0 is \"%s\" on rank "
                            "%d; make the same model in the same way on all ranks",
                            found->of_pass ? "the training pass" : "an operation",
                            unit_number(unit), all[0], all[found->rank], found->rank);
    }
    free(all);
    return rc;
}

/* The first rank with other words than rank 0's; 0: none. `all` has {lines, pass} of each. */
static struct difference first_difference(const struct wk_context *ctx, const int64_t (*all)[2])
{
    for (int rank = 1; rank < ctx->group.world; rank++) {
        bool pass = all[rank][1] && all[0][1] && all[rank][1] != all[0][1];
        if (all[rank][0] != all[0][0] || pass)
            return (struct difference){rank, all[rank][0] == all[0][0]};
    }
    return (struct difference){0};
}

static int compare(struct wk_context *ctx, const struct unit *unit, int64_t (*all)[2],
                   struct error *err)
{
    struct words words;
    int rc = words_new(ctx, unit, &words, err);
    if (rc)
        return rc;
    int64_t own[2] = {digest_of(words.lines, (size_t)words.count * sizeof(*words.lines)),
                      words.pass};
    rc = wk_all_gather(ctx->group.comm, own, all, 2, WK_I64, NULL);
    if (rc) {
        rc = failed(ctx, rc, err);
    } else {
        struct difference found = first_difference(ctx, (const int64_t(*)[2])all);
        rc = found.rank ? refuse_model(ctx, unit, &words, &found, err) : 0;
    }
    free(words.lines);
    return rc;
}

int models_agree(struct wk_context *ctx, struct error *err)
{
    const struct unit *unit;
    int64_t(*all)[2] = calloc((size_t)ctx->group.world, sizeof(*all));
    int rc = memory_agree(ctx, all, "compare the models", err);
    if (!rc)
        rc = budgets_agree(ctx, err);
    units_each(unit, ctx)
        rc = rc || ctx->group.world == 1 ? rc : compare(ctx, unit, all, err);
    free(all);
    ctx->prepared.compared = ctx->prepared.compared || !rc;
    return rc;
}
