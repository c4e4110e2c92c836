#include "libworker/step/agree_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/data/source.h"
#include "libworker/device/device.h"
#include "libworker/kernel/cpu/blas.h"
#include "libworker/step/context.h"

/* One word per setting, then those of the objects. */
enum {
    WORD_MODELS = SETTINGS_COUNT,
    WORD_DEVICE,
    WORD_OPTIMIZERS,
    WORD_GROUPS = WORD_OPTIMIZERS + NUMBERS_UNITS_MAX,
    WORD_SCHEDULERS = WORD_GROUPS + NUMBERS_UNITS_MAX,
    WORD_LOADERS = WORD_SCHEDULERS + NUMBERS_SCHEDULERS_MAX,
    WORD_PRODUCTS = WORD_LOADERS + NUMBERS_LOADERS_MAX, /* last: it depends on some of them */
    WORD_COUNT,

    WORD_MAX = 224,
    NAME_MAX_BYTES = 64,
    SOURCE_MAX_BYTES = 128,
};

/* Settings that belong to each rank: paths, addresses, timeouts, logs, rank 0's saving. Also the
 * optimizer's name, because the made optimizer is compared. */
static bool may_differ(enum setting setting)
{
    static const enum setting own[] = {
        SETTING_OPTIMIZER,       SETTING_OFFLOAD_DIR,
        SETTING_OFFLOAD_STATE,   SETTING_OFFLOAD_MASTERS,
        SETTING_CHECKPOINT_DIR,  SETTING_CHECKPOINT_EVERY,
        SETTING_CHECKPOINT_KEEP, SETTING_CHECKPOINT_PATIENCE,
        SETTING_RESUME_FROM,     SETTING_COMM_TIMEOUT,
        SETTING_CONNECT_TIMEOUT, SETTING_RENDEZVOUS_TIMEOUT,
        SETTING_BIND_ADDRESS,    SETTING_LOG_FILE,
        SETTING_LOG_CSV,         SETTING_LOG_TENSORBOARD,
        SETTING_TRACE_FILE,      SETTING_LOG_EVERY,
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i] == setting)
            return true;
    return false;
}

static uint64_t digest(const char *text, uint64_t hash)
{
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u; /* FNV-1a */
    return hash;
}

static const uint64_t DIGEST_START = 14695981039346656037u;

/* By value, not by its text. */
static void say_setting(const struct settings *settings, enum setting setting, char ret[WORD_MAX])
{
    if (may_differ(setting))
        return;
    switch (setting_rows[setting].kind) {
    case SETTING_NUMBER:
        (void)str_printf(ret, WORD_MAX, "%.15g", settings_number(settings, setting));
        return;
    case SETTING_INTEGER:
        (void)str_printf(ret, WORD_MAX, "%lld", (long long)settings_integer(settings, setting));
        return;
    case SETTING_BOOL:
        (void)str_copy(ret, WORD_MAX, settings_integer(settings, setting) ? "true" : "false");
        return;
    case SETTING_CHOICE_OR_SIZE: {
        int64_t integer = settings_integer(settings, setting);
        char choice[SETTING_CHOICE_MAX];
        if (integer > 0)
            (void)str_printf(ret, WORD_MAX, "%lld bytes", (long long)integer);
        else
            (void)str_copy(ret, WORD_MAX, setting_choice(setting, -integer, choice));
        return;
    }
    case SETTING_TEXT:
    case SETTING_CHOICE:
    case SETTING_DURATION:
    case SETTING_INTERVAL:
        (void)str_copy(ret, WORD_MAX, settings_text(settings, setting));
        return;
    }
}

static void say_adam(const struct wk_adamw_options *o, const char *name, char ret[WORD_MAX])
{
    (void)str_printf(ret, WORD_MAX,
                     "%s (rate %.15g, betas %.15g and %.15g, epsilon %.15g, decay "
                     "%.15g)",
                     name, o->rate, o->beta1, o->beta2, o->epsilon, o->weight_decay);
}

/* The options, not the present rate, which the schedule and the program change. */
static void say_optimizer(const struct wk_optimizer *optimizer, char ret[WORD_MAX])
{
    if (!optimizer) {
        (void)str_copy(ret, WORD_MAX, "none");
        return;
    }
    const char *name = optimizer->ops->name;
    const struct wk_sgd_options *sgd = &optimizer->options.sgd;
    const struct wk_lion_options *lion = &optimizer->options.lion;
    const struct wk_adafactor_options *factor = &optimizer->options.adafactor;
    const struct wk_muon_options *muon = &optimizer->options.muon;
    if (strcmp(name, "sgd") == 0)
        (void)str_printf(ret, WORD_MAX, "%s (rate %.15g, momentum %.15g, nesterov %d, decay %.15g)",
                         name, sgd->rate, sgd->momentum, sgd->nesterov, sgd->weight_decay);
    else if (strcmp(name, "lion") == 0)
        (void)str_printf(ret, WORD_MAX, "%s (rate %.15g, betas %.15g and %.15g, decay %.15g)", name,
                         lion->rate, lion->beta1, lion->beta2, lion->weight_decay);
    else if (strcmp(name, "adafactor") == 0)
        (void)str_printf(ret, WORD_MAX,
                         "%s (rate %.15g, power %.15g, epsilons %.15g and %.15g, clip %.15g, "
                         "relative %d, decay %.15g)",
                         name, factor->rate, factor->decay_power, factor->epsilon1,
                         factor->epsilon2, factor->clip, factor->relative, factor->weight_decay);
    else if (strcmp(name, "muon") == 0)
        (void)str_printf(ret, WORD_MAX,
                         "%s (rate %.15g, momentum %.15g, nesterov %d, decay %.15g; others: betas "
                         "%.15g and %.15g, epsilon %.15g)",
                         name, muon->rate, muon->momentum, muon->nesterov, muon->weight_decay,
                         muon->others.beta1, muon->others.beta2, muon->others.epsilon);
    else
        say_adam(&optimizer->options.adamw, name, ret);
}

static void say_groups(const struct wk_optimizer *optimizer, char ret[WORD_MAX])
{
    uint64_t hash = DIGEST_START;
    int n_groups = optimizer ? optimizer->n_groups : 0;
    for (int i = 0; i < n_groups; i++) {
        const struct optimizer_group *group = &optimizer->groups[i];
        char text[WORD_MAX];
        (void)str_printf(text, sizeof(text), "%s %.15g %.15g %d;", group->pattern,
                         group->numbers.rate_scale, group->numbers.weight_decay,
                         group->numbers.elementwise);
        hash = digest(text, hash);
    }
    (void)str_printf(ret, WORD_MAX, "%d of digest %016llx", n_groups, (unsigned long long)hash);
}

static void say_schedule(const struct wk_schedule_options *o, char ret[WORD_MAX])
{
    (void)str_printf(ret, WORD_MAX,
                     "kind %d (warm-up %lld, total %lld, decay %lld, ratios %.15g and %.15g, root "
                     "%d, %d parts)",
                     (int)o->kind, (long long)o->warmup_steps, (long long)o->total_steps,
                     (long long)o->decay_steps, o->min_ratio, o->initial_ratio, o->root,
                     o->n_parts);
}

/* A lambda's argument cannot be compared. */
static void say_scheduler(const struct wk_scheduler *scheduler, char ret[WORD_MAX])
{
    const struct wk_schedule_options *o = &scheduler->options;
    uint64_t hash = DIGEST_START;
    say_schedule(o, ret);
    if (o->kind != WK_SCHEDULE_PRODUCT && o->kind != WK_SCHEDULE_SEQUENCE)
        return;
    for (int i = 0; i < o->n_parts; i++) {
        char text[WORD_MAX];
        say_schedule(&o->parts[i], text);
        hash = digest(text, hash);
        (void)str_printf(text, sizeof(text), "%lld", (long long)o->ends[i]);
        if (o->kind == WK_SCHEDULE_SEQUENCE && i < o->n_parts - 1)
            hash = digest(text, hash);
    }
    size_t used = strlen(ret);
    (void)str_printf(ret + used, WORD_MAX - used, " of digest %016llx", (unsigned long long)hash);
}

/* How many models there are, and how many with passes that return means over their share. */
static void say_models(const struct wk_context *ctx, char ret[WORD_MAX])
{
    int means = 0;
    for (int i = 0; i < ctx->prepared.n_units; i++)
        means += ctx->prepared.units[i].model->mean_of_share;
    if (means)
        (void)str_printf(ret, WORD_MAX, "%d (%d with wk_mean_of_share)", ctx->prepared.n_units,
                         means);
    else
        (void)str_printf(ret, WORD_MAX, "%d", ctx->prepared.n_units);
}

static void say_source(const struct wk_loader *loader, char ret[SOURCE_MAX_BYTES])
{
    const struct wk_source *source = loader->options.source;
    long long count = (long long)source->count;
    unsigned long long hash = source_digest(source);
    if (source->rows)
        (void)str_printf(ret, SOURCE_MAX_BYTES, "%lld rows of digest %016llx", count, hash);
    else
        (void)str_printf(ret, SOURCE_MAX_BYTES, "%lld tokens of digest %016llx in samples of %lld",
                         count, hash, (long long)loader->length);
}

static void say_loader(const struct wk_loader *loader, char ret[WORD_MAX])
{
    const struct wk_loader_options *o = &loader->options;
    char limit[NAME_MAX_BYTES] = "", source[SOURCE_MAX_BYTES];
    if (o->batches)
        (void)str_printf(limit, sizeof(limit), ", %lld batches", (long long)o->batches);
    say_source(loader, source);
    (void)str_printf(ret, WORD_MAX, "%s (batch %lld, epochs %lld%s, seed %llu%s%s%s)", source,
                     (long long)loader->batch_asked, (long long)o->epochs, limit,
                     (unsigned long long)o->seed, o->sequential ? ", sequential" : "",
                     o->drop_last ? ", drop_last" : "", o->evaluation ? ", evaluation" : "");
}

/* Muon's update and PowerSGD's gradients are products that each rank computes for itself. The
 * library's kernels depend on the CPU and are chosen at process start. Any other product ends in a
 * sum over the ranks, and that has the same bits on all of them. */
static void say_products(const struct wk_context *ctx, char ret[WORD_MAX])
{
    const char *hook = settings_text(&ctx->settings, SETTING_DDP_HOOK);
    bool repeated = strcmp(hook, "powersgd") == 0;
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        const struct wk_optimizer *optimizer = ctx->prepared.units[i].optimizer;
        repeated |= optimizer && strcmp(optimizer->ops->name, "muon") == 0;
    }
    if (repeated)
        (void)str_copy(ret, WORD_MAX, blas_core() ? blas_core() : "none");
}

/* This rank's description of one thing, "" if there is none. */
static void say(const struct wk_context *ctx, int word, char ret[WORD_MAX])
{
    memset(ret, 0, WORD_MAX);
    if (word < SETTINGS_COUNT)
        say_setting(&ctx->settings, (enum setting)word, ret);
    else if (word == WORD_MODELS)
        say_models(ctx, ret);
    else if (word == WORD_DEVICE)
        (void)str_copy(ret, WORD_MAX, device_name(ctx->compute.device));
    else if (word == WORD_PRODUCTS)
        say_products(ctx, ret);
    else if (word < WORD_GROUPS)
        say_optimizer(ctx->prepared.units[word - WORD_OPTIMIZERS].optimizer, ret);
    else if (word < WORD_SCHEDULERS)
        say_groups(ctx->prepared.units[word - WORD_GROUPS].optimizer, ret);
    else if (word < WORD_LOADERS && word - WORD_SCHEDULERS < ctx->prepared.n_schedulers)
        say_scheduler(ctx->prepared.schedulers[word - WORD_SCHEDULERS], ret);
    else if (word >= WORD_LOADERS && word - WORD_LOADERS < ctx->prepared.n_loaders)
        say_loader(ctx->prepared.loaders[word - WORD_LOADERS], ret);
    else
        (void)str_copy(ret, WORD_MAX, "none");
}

/* "the optimizer", or with several models that of which one. */
static void name_of_unit(const struct wk_context *ctx, int index, const char *what,
                         char ret[NAME_MAX_BYTES])
{
    if (ctx->prepared.n_units == 1)
        (void)str_printf(ret, NAME_MAX_BYTES, "the optimizer%s", what);
    else
        (void)str_printf(ret, NAME_MAX_BYTES, "the optimizer%s of model %d", what, index + 1);
}

static void name_word(const struct wk_context *ctx, int word, char ret[NAME_MAX_BYTES])
{
    if (word < SETTINGS_COUNT)
        (void)str_copy(ret, NAME_MAX_BYTES, setting_rows[word].name);
    else if (word == WORD_MODELS)
        (void)str_copy(ret, NAME_MAX_BYTES, "the number of models");
    else if (word == WORD_DEVICE)
        (void)str_copy(ret, NAME_MAX_BYTES, "the device that computes");
    else if (word == WORD_PRODUCTS)
        (void)str_copy(ret, NAME_MAX_BYTES, "the kernels of OpenBLAS (OPENBLAS_CORETYPE)");
    else if (word < WORD_GROUPS)
        name_of_unit(ctx, word - WORD_OPTIMIZERS, "", ret);
    else if (word < WORD_SCHEDULERS)
        name_of_unit(ctx, word - WORD_GROUPS, "'s groups", ret);
    else if (word < WORD_LOADERS)
        (void)str_printf(ret, NAME_MAX_BYTES, "scheduler %d", word - WORD_SCHEDULERS + 1);
    else
        (void)str_printf(ret, NAME_MAX_BYTES, "loader %d", word - WORD_LOADERS + 1);
}

/* All ranks found the same difference; now report it. */
static int refuse(struct wk_context *ctx, int rank, int word, struct error *err)
{
    char own[WORD_MAX], name[NAME_MAX_BYTES];
    char(*all)[WORD_MAX] = calloc((size_t)ctx->group.world, sizeof(*all));
    if (!all)
        return error_set(err, WK_ENOMEM, "no memory to compare %d ranks", ctx->group.world);
    say(ctx, word, own);
    name_word(ctx, word, name);
    int rc = wk_all_gather(ctx->group.comm, own, all, sizeof(own), WK_U8, NULL);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
    else
        rc = error_set(err, WK_EMISMATCH,
                       "ranks differ in %s: it is %s on rank 0 and %s on rank %d; set the same on "
                       "all ranks",
                       name, all[0], all[rank], rank);
    free(all);
    return rc;
}

static int compare(struct wk_context *ctx, const uint64_t *all, struct error *err)
{
    for (int word = 0; word < WORD_COUNT; word++)
        for (int rank = 1; rank < ctx->group.world; rank++)
            if (all[(size_t)rank * WORD_COUNT + (size_t)word] != all[word])
                return refuse(ctx, rank, word, err);
    return 0;
}

int config_agree(struct wk_context *ctx, struct error *err)
{
    uint64_t own[WORD_COUNT];
    uint64_t *all = calloc((size_t)ctx->group.world, sizeof(own));
    if (!all)
        return error_set(err, WK_ENOMEM, "no memory to compare %d ranks", ctx->group.world);
    for (int word = 0; word < WORD_COUNT; word++) {
        char text[WORD_MAX];
        say(ctx, word, text);
        own[word] = digest(text, DIGEST_START);
    }
    int rc = wk_all_gather(ctx->group.comm, own, all, WORD_COUNT, WK_I64, NULL);
    if (rc)
        error_set(err, rc, "%s", wk_comm_error(ctx->group.comm));
    else
        rc = compare(ctx, all, err);
    free(all);
    return rc;
}
