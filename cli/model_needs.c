#include "cli/model_needs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/optim.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/kept.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/settings/setting.h"
#include "libworker/device/module.h"
#include "libworker/estimate/estimate.h"
#include "libworker/graph/offload.h"
#include "libworker/nn/model.h"

enum { MIB = 1 << 20, ARCH = 90 };

const char *const needs_strategies[] = {"ddp", "zero1", "zero2", "fsdp", "all", NULL};
const char *const needs_precisions[] = {"no", "bf16", "fp16", NULL};
const char *const needs_devices[] = {"cpu", "cuda", NULL};
const char *const needs_attentions[] = {"auto", "own", "cudnn", NULL};
const char *const needs_compiles[] = {"auto", "off", "on", NULL};
const char *const needs_policies[] = {"none", "blocks", "operations", NULL};
const char *const needs_optimizers[] = {"adamw", "adam", "sgd", "lion", "adafactor", "muon", NULL};

struct needs {
    struct estimate_options options;
    const char *optimizer, *precision, *policy, *device;
    int64_t parameters;
    int count;
    enum strategy_kind strategies[NEEDS_ROWS_MAX];
    struct estimate rows[NEEDS_ROWS_MAX];
};

static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};

static int index_of(const char *const *names, const char *name)
{
    int i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return i;
}

int needs_pass(const struct args *args, struct needs_pass *ret, struct error *err)
{
    struct setting_parsed policy;
    bool offloads = args_flag(args, "offload-activations");
    if (setting_parse(SETTING_RECOMPUTE, args_text(args, "recompute"), &policy, err))
        return error_wrap(err, "--recompute");
    if (offloads && strcmp(args_text(args, "device"), "cpu") == 0)
        return error_set(err, E_INVALID_ARGUMENT,
                         "--offload-activations is about the memory of a GPU: add --device cuda");
    *ret = (struct needs_pass){
        .compute = types[index_of(needs_precisions, args_text(args, "mixed-precision"))],
        .recompute =
            policy.integer > 0 ? WK_RECOMPUTE_WITHIN : (enum wk_recompute) - policy.integer,
        .within = policy.integer > 0 ? policy.integer : 0,
        .offload = offloads,
    };
    return 0;
}

/* Only its kind counts here. */
static int make_optimizer(const char *name, struct wk_optimizer **ret, struct error *err)
{
    const struct wk_adamw_options adam = {1e-3, 0.9, 0.999, 1e-8, 0.1};
    int rc = -1;
    if (strcmp(name, "adamw") == 0)
        rc = wk_adamw_new(&adam, ret);
    else if (strcmp(name, "adam") == 0)
        rc = wk_adam_new(&adam, ret);
    else if (strcmp(name, "sgd") == 0)
        rc = wk_sgd_new(&(struct wk_sgd_options){.rate = 1e-3, .momentum = 0.9}, ret);
    else if (strcmp(name, "lion") == 0)
        rc = wk_lion_new(&(struct wk_lion_options){1e-4, 0.9, 0.99, 0.1}, ret);
    else if (strcmp(name, "adafactor") == 0)
        rc = wk_adafactor_new(
            &(struct wk_adafactor_options){
                .rate = 1e-3, .decay_power = 0.8, .epsilon1 = 1e-30, .epsilon2 = 1e-3, .clip = 1},
            ret);
    else
        rc = wk_muon_new(&(struct wk_muon_options){.rate = 1e-3, .momentum = 0.95, .others = adam},
                         ret);
    if (rc)
        return error_set(err, E_RESOURCE_EXHAUSTED, "optimizer %s: %s", name, error_kept());
    return 0;
}

int needs_optimizer(const struct args *args, struct wk_optimizer **ret, struct error *err)
{
    return make_optimizer(args_text(args, "optimizer"), ret, err);
}

/* The default of a setting that is a number. */
static double default_of(enum setting setting)
{
    struct setting_parsed parsed = {0};
    (void)setting_parse(setting, setting_rows[setting].fallback, &parsed, NULL);
    return parsed.number;
}

static int estimate_rows(struct needs *n, struct wk_model *model, const char *strategy,
                         struct error *err)
{
    int only = index_of(needs_strategies, strategy);
    for (int kind = 0; kind < STRATEGY_KINDS; kind++) {
        if (only < STRATEGY_KINDS && kind != only)
            continue;
        struct error refusal = {0};
        struct estimate_options options = n->options;
        options.strategy = (enum strategy_kind)kind;
        int rc = estimate_training(model, &options, &n->rows[n->count], &refusal);
        if (!rc)
            n->strategies[n->count++] = (enum strategy_kind)kind;
        else if (only < STRATEGY_KINDS || !err->code)
            *err = refusal;
    }
    if (n->count)
        error_clear(err);
    return n->count ? 0 : err->code;
}

int needs_device(const struct args *args, struct device **ret, struct error *err)
{
    const struct module_table *module = NULL;
    *ret = NULL;
    if (strcmp(args_text(args, "device"), "cpu") == 0)
        return 0;
    int rc = module_open_to_plan(getenv(MODULE_VARIABLE), &module, err);
    if (!rc)
        rc = module->plan_device_new(ARCH, ret, err);
    if (!rc)
        module->attention(*ret, args_text(args, "attention"));
    return rc ? error_wrap(err, "--device cuda") : 0;
}

int needs_new(const struct args *args, struct wk_model *model, const struct device *device,
              struct needs **ret, struct error *err)
{
    struct wk_optimizer *optimizer;
    struct needs_pass pass;
    if (needs_pass(args, &pass, err))
        return err->code;
    bool offloads = args_flag(args, "offload-state") || args_flag(args, "offload-masters");
    if (offloads && !device)
        return error_set(err, E_INVALID_ARGUMENT,
                         "--offload-state and --offload-masters are about the memory of a GPU: add "
                         "--device cuda");
    struct needs *n = calloc(1, sizeof(*n));
    if (!n)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for an estimate");
    n->optimizer = args_text(args, "optimizer");
    n->precision = args_text(args, "mixed-precision");
    n->policy = args_text(args, "recompute");
    n->device = args_text(args, "device");
    n->parameters = (int64_t)model->count;
    int rc = make_optimizer(n->optimizer, &optimizer, err);
    if (!rc) {
        int64_t world = args_integer(args, "world");
        n->options = (struct estimate_options){
            .world = world > ESTIMATE_WORLD_MAX ? ESTIMATE_WORLD_MAX + 1 : (int)world,
            .samples = args_integer(args, "batch"),
            .length = args_given(args, "length") ? args_integer(args, "length") : model->context,
            .compute = pass.compute,
            .low_gradients = args_flag(args, "low-gradients"),
            .state_on_host = args_flag(args, "offload-state"),
            .masters_on_host = args_flag(args, "offload-masters"),
            .values_on_host = pass.offload,
            .recompute = pass.recompute,
            .within = pass.within,
            .prefetch = (int)default_of(SETTING_PREFETCH),
            .bucket_bytes = (size_t)(default_of(SETTING_BUCKET_MIB) * MIB),
            .optimizer = optimizer,
            .device = device,
            .graphs = device_graphs_of(args_text(args, "compile")),
        };
        rc = estimate_rows(n, model, args_text(args, "strategy"), err);
        n->options.optimizer = NULL;
        n->options.device = NULL;
        wk_optimizer_free(optimizer);
    }
    if (rc)
        free(n);
    else
        *ret = n;
    return rc;
}

void needs_free(struct needs *needs)
{
    free(needs);
}

static void cell_bytes(struct table *table, int64_t bytes)
{
    char text[FORMAT_MAX];
    table_cell(table, "%s", bytes ? format_bytes((uint64_t)bytes, text) : "");
}

/* Half of the bytes go each way, at once. */
static void show_bus(const struct needs *needs)
{
    const struct estimate *first = &needs->rows[0];
    for (int i = 0; i < needs->count; i++) {
        double bytes = (double)needs->rows[i].over_bus;
        if (bytes > 0)
            printf("%s: an update waits at least %.1f ms for the bus, PCIe 5.0 x16\n",
                   needs_strategies[needs->strategies[i]], bytes / 2 / OFFLOAD_BUS * 1e3);
    }
    if (!needs->options.values_on_host)
        return;
    char host[FORMAT_MAX], saved[FORMAT_MAX];
    printf("activations: %d pieces, %s of pinned memory", first->values.pieces,
           format_bytes((uint64_t)first->values.on_host, host));
    if (first->values.saved > 0)
        printf(", %s less on the GPU", format_bytes((uint64_t)first->values.saved, saved));
    printf("; copies of a pass take at least %.1f ms, PCIe 5.0 x16\n",
           2 * (double)first->values.on_host / OFFLOAD_BUS * 1e3);
}

/* What is known of graphs without a GPU. */
static void show_graphs(const struct estimate *e)
{
    char bytes[FORMAT_MAX];
    if (*e->graphs_reason)
        printf("%s\n", e->graphs_reason);
    if (e->graphs.launches)
        printf("graphs: at most %d launches of a pass, in at least %s of the host's memory\n"
               "graphs: their memory on the GPU is the driver's, not known before they are made\n",
               e->graphs.launches, format_bytes((uint64_t)e->graphs.host_bytes, bytes));
}

void needs_table(const struct needs *needs)
{
    static const char *const titles[] = {"STRATEGY",   ">PARAMETERS",  ">NARROW",   ">GRADIENTS",
                                         ">OPTIMIZER", ">ACTIVATIONS", ">BATCH",    ">LINKS",
                                         ">TOTAL",     ">ON HOST",     ">OVER BUS", ">SENT A STEP",
                                         NULL};
    const struct estimate_options *o = &needs->options;
    char count[FORMAT_MAX], forward[FORMAT_MAX], backward[FORMAT_MAX], again[FORMAT_MAX];
    struct table table;
    table_init(&table, titles);
    for (int i = 0; i < needs->count; i++) {
        const struct estimate *e = &needs->rows[i];
        table_cell(&table, "%s", needs_strategies[needs->strategies[i]]);
        cell_bytes(&table, e->parameters);
        cell_bytes(&table, e->low);
        cell_bytes(&table, e->gradients);
        cell_bytes(&table, e->optimizer);
        cell_bytes(&table, e->activations);
        cell_bytes(&table, e->batch);
        cell_bytes(&table, e->communication);
        cell_bytes(&table, e->total);
        cell_bytes(&table, e->on_host);
        cell_bytes(&table, e->over_bus + 2 * e->values.on_host);
        cell_bytes(&table, (int64_t)e->sent);
    }
    printf("%s parameters, %d ranks, each %" PRId64 " x %" PRId64
           ", %s, mixed_precision %s, recompute %s, on %s\n"
           "a rank's pass: %s FLOP forward, %s backward, of which %s again\n",
           count_text((double)needs->parameters, count), o->world, o->samples, o->length,
           needs->optimizer, needs->precision, needs->policy, needs->device,
           count_text(needs->rows[0].forward_flop, forward),
           count_text(needs->rows[0].backward_flop, backward),
           count_text(needs->rows[0].again_flop, again));
    table_print(&table, stdout, "no strategy");
    table_fini(&table);
    show_bus(needs);
    show_graphs(&needs->rows[0]);
}

struct figure {
    const char *name;
    int64_t value;
};

static int set_figures(struct arena *arena, struct tree *map, const struct figure *figures)
{
    int rc = 0;
    for (; figures->name && !rc; figures++)
        rc = tree_map_set(arena, map, figures->name, tree_integer(arena, figures->value));
    return rc;
}

static int add_row(const struct needs *needs, int i, struct arena *arena, struct tree *list)
{
    const struct estimate *e = &needs->rows[i];
    const char *strategy = needs_strategies[needs->strategies[i]];
    const struct figure figures[] = {
        {"parameters_bytes", e->parameters},
        {"narrow_bytes", e->low},
        {"gradients_bytes", e->gradients},
        {"optimizer_bytes", e->optimizer},
        {"activations_bytes", e->activations},
        {"batch_bytes", e->batch},
        {"links_bytes", e->communication},
        {"total_bytes", e->total},
        {"host_bytes", e->on_host},
        {"bus_bytes", e->over_bus + 2 * e->values.on_host},
        {"activations_host_bytes", e->values.on_host},
        {"activations_saved_bytes", e->values.saved},
        {"sent_bytes", (int64_t)e->sent},
        {0},
    };
    struct tree *map = tree_map(arena);
    int rc = tree_list_add(list, map);
    if (!rc)
        rc = tree_map_set(arena, map, "strategy", tree_string(arena, strategy));
    if (!rc)
        rc = set_figures(arena, map, figures);
    return rc;
}

static int set_question(const struct needs *needs, struct arena *arena, struct tree *root)
{
    const struct estimate_options *o = &needs->options;
    const struct figure figures[] = {{"parameters", needs->parameters},
                                     {"world", o->world},
                                     {"batch", o->samples},
                                     {"length", o->length},
                                     {0}};
    int rc = set_figures(arena, root, figures);
    if (!rc)
        rc = tree_map_set(arena, root, "optimizer", tree_string(arena, needs->optimizer));
    if (!rc)
        rc = tree_map_set(arena, root, "mixed_precision", tree_string(arena, needs->precision));
    if (!rc)
        rc = tree_map_set(arena, root, "recompute", tree_string(arena, needs->policy));
    if (!rc)
        rc = tree_map_set(arena, root, "device", tree_string(arena, needs->device));
    if (!rc)
        rc = tree_map_set(arena, root, "low_gradients", tree_bool(arena, o->low_gradients));
    if (!rc)
        rc = tree_map_set(arena, root, "offload_state", tree_bool(arena, o->state_on_host));
    if (!rc)
        rc = tree_map_set(arena, root, "offload_masters", tree_bool(arena, o->masters_on_host));
    if (!rc)
        rc = tree_map_set(arena, root, "offload_activations", tree_bool(arena, o->values_on_host));
    return rc;
}

int needs_tree(const struct needs *needs, struct arena *arena, struct tree *root)
{
    const struct estimate *first = &needs->rows[0];
    struct tree *rows = tree_list(arena);
    const struct figure graphs[] = {{"graph_launches", first->graphs.launches},
                                    {"graph_host_bytes", (int64_t)first->graphs.host_bytes},
                                    {0}};
    int rc = set_question(needs, arena, root);
    if (!rc)
        rc = tree_map_set(arena, root, "forward_flop", tree_number(arena, first->forward_flop));
    if (!rc)
        rc = tree_map_set(arena, root, "backward_flop", tree_number(arena, first->backward_flop));
    if (!rc)
        rc = tree_map_set(arena, root, "again_flop", tree_number(arena, first->again_flop));
    if (!rc)
        rc = tree_map_set(arena, root, "strategies", rows);
    for (int i = 0; i < needs->count && !rc; i++)
        rc = add_row(needs, i, arena, rows);
    if (!rc && *first->graphs_reason)
        rc = tree_map_set(arena, root, "graphs", tree_string(arena, first->graphs_reason));
    if (!rc && *first->graphs_reason)
        rc = set_figures(arena, root, graphs);
    return rc;
}
