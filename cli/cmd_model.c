/* muster model: what a model is made of, and what its training needs, before anything runs */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/model_graph.h"
#include "cli/model_input.h"
#include "cli/model_needs.h"
#include "cli/model_traffic.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"
#include "libworker/device/device.h"
#include "libworker/estimate/estimate.h"
#include "libworker/graph/graph_model.h"

enum { TREE_BYTES_MAX = 256 << 20 };

static const char *const outputs[] = {"table", "json", "yaml", NULL};
static const char *const actions[] = {"show", "estimate", "count", NULL};
static const struct args_option options[] = {
    MODEL_OPTIONS,
    {.name = "batch",
     .letter = 'b',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .fallback = "1",
     .value_name = "N",
     .help = "samples of a rank's pass"},
    {.name = "length",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .value_name = "N",
     .help = "tokens of a sample (else the model's context)"},
    NEEDS_OPTIONS,
    TRAFFIC_OPTIONS,
    {.name = "dot", .kind = ARGS_FLAG, .help = "show: a drawing in Graphviz's language"},
    {.name = "output",
     .letter = 'o',
     .kind = ARGS_OPTION,
     .choices = outputs,
     .fallback = "table",
     .value_name = "FORMAT",
     .help = "how it is printed"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = actions,
     .help = "`show` its operations, `estimate` a rank's memory, or `count` a step"},
    MODEL_FOLDER,
    {0},
};
static const char *const examples[] = {
    "muster model show --gpt layers=12,width=768",
    "muster model show models/llama-hf --dot | dot -Tsvg > llama.svg",
    "muster model estimate --gpt layers=12,width=768 --batch 8 -n 4",
    "muster model estimate models/llama-hf -n 64 --strategy fsdp --mixed-precision bf16",
    "muster model estimate --gpt layers=12,width=768 --batch 8 --recompute 1GiB",
    "muster model estimate --gpt layers=12,width=768 --batch 64 --mixed-precision bf16 --device "
    "cuda",
    NULL,
};
static const struct args_command command = {
    .program = "muster model",
    .summary = "show a model's operations; estimate the memory of training it",
    .description =
        "`show` lists the operations of a model by block: result, parameters, FLOP and bytes of a "
        "forward pass. `estimate` says how many bytes each rank needs at the most during a step, "
        "by strategy, with FLOP and bytes sent. Activations are those of the plan that training "
        "would use. `count` adds up kernels, bytes and FLOP of a training step by operation. The "
        "program itself and its libraries are not counted. Nothing is allocated, "
        "and no coordinator is needed.",
    .options = options,
    .examples = examples,
};

/* What is printed as a tree, if it is not a table or a drawing. */
struct answer {
    struct arena arena;
    struct tree *root; /* a map */
    bool is_tree;
};

static int print_answer(const struct answer *answer, const char *format, struct error *err)
{
    struct buf out;
    buf_init(&out, TREE_BYTES_MAX);
    int rc = strcmp(format, "yaml") == 0 ? tree_write_yaml(answer->root, &out, err)
                                         : tree_write_json(answer->root, TREE_PRETTY, &out, err);
    if (!rc)
        printf("%s%s", buf_cstr(&out), buf_cstr(&out)[out.size - 1] == '\n' ? "" : "\n");
    buf_fini(&out);
    return rc;
}

/* How it is trained with these sizes; node_passes_free. */
static int plan_view(const struct args *args, const struct model_view *view,
                     struct training_pass *ret, struct error *err)
{
    struct needs_pass pass;
    struct device *device = NULL;
    int rc = needs_pass(args, &pass, err);
    struct plan_options wanted = {.sizes = {view->samples, view->length}};
    if (!rc)
        rc = needs_device(args, &device, err);
    if (rc)
        return rc;
    wanted.device = device;
    wanted.compute = pass.compute;
    wanted.recompute = pass.recompute;
    wanted.within = pass.within;
    wanted.offload = pass.offload;
    rc = node_passes_new(view->graph, &wanted, ret, err);
    device_free(device);
    return rc;
}

static int show_model(const struct args *args, struct wk_model *model, struct answer *answer,
                      struct error *err)
{
    const struct graph_model *m = graph_model_of(model);
    struct training_pass pass;
    struct model_view view = {m->graph, args_integer(args, "batch"), model->context, &pass};
    if (args_given(args, "length"))
        view.length = args_integer(args, "length");
    if (view.samples < 1 || view.samples > ESTIMATE_SAMPLES_MAX)
        return error_set(err, E_INVALID_ARGUMENT, "--batch is %lld: it must be 1 to %d",
                         (long long)view.samples, ESTIMATE_SAMPLES_MAX);
    if (view.length < 1 || view.length > model->context)
        return error_set(err, E_INVALID_ARGUMENT, "--length is %lld: it must be 1 to %lld",
                         (long long)view.length, (long long)model->context);
    if (view.samples * view.length > ESTIMATE_TOKENS_MAX)
        return error_set(err, E_INVALID_ARGUMENT,
                         "a --batch of %lld samples of length %lld has more than %d tokens",
                         (long long)view.samples, (long long)view.length, ESTIMATE_TOKENS_MAX);
    int rc = plan_view(args, &view, &pass, err);
    if (rc)
        return rc;
    if (args_flag(args, "dot")) {
        answer->is_tree = false;
        model_graph_dot(&view);
    } else if (answer->is_tree) {
        rc = model_graph_tree(&view, &answer->arena, answer->root);
    } else {
        model_graph_table(&view);
    }
    node_passes_free(&pass);
    return rc;
}

static int show_needs(const struct args *args, struct wk_model *model, struct answer *answer,
                      struct error *err)
{
    struct needs *needs = NULL;
    struct device *device = NULL;
    if (args_flag(args, "dot"))
        return error_set(err, E_INVALID_ARGUMENT, "--dot is of `muster model show`");
    int rc = needs_device(args, &device, err);
    if (!rc)
        rc = needs_new(args, model, device, &needs, err);
    if (!rc && answer->is_tree)
        rc = needs_tree(needs, &answer->arena, answer->root);
    else if (!rc)
        needs_table(needs);
    needs_free(needs);
    device_free(device);
    return rc;
}

static int show_traffic(const struct args *args, struct wk_model *model,
                        const struct answer *answer, struct error *err)
{
    struct device *device = NULL;
    if (args_flag(args, "dot") || answer->is_tree)
        return error_set(err, E_INVALID_ARGUMENT, "`muster model count` is a table");
    int rc = needs_device(args, &device, err);
    if (!rc)
        rc = traffic_table(args, model, device, err);
    device_free(device);
    return rc;
}

static int print_model(const struct args *args, struct answer *answer, struct error *err)
{
    struct wk_model *model = NULL;
    const char *format = args_text(args, "output");
    answer->root = tree_map(&answer->arena);
    answer->is_tree = strcmp(format, "table") != 0;
    int rc = answer->root ? model_input(args, &model, err) : E_RESOURCE_EXHAUSTED;
    if (!rc && strcmp(args_text(args, "action"), "show") == 0)
        rc = show_model(args, model, answer, err);
    else if (!rc && strcmp(args_text(args, "action"), "count") == 0)
        rc = show_traffic(args, model, answer, err);
    else if (!rc)
        rc = show_needs(args, model, answer, err);
    if (!rc && answer->is_tree)
        rc = print_answer(answer, format, err);
    wk_model_free(model);
    return rc;
}

static int run_model(const struct args *args)
{
    struct error err = {0};
    struct answer answer = {0};
    arena_init(&answer.arena, TREE_BYTES_MAX);
    int rc = print_model(args, &answer, &err);
    arena_fini(&answer.arena);
    if (!rc)
        return EXIT_DONE;
    if (!err.code)
        (void)error_set(&err, rc, "no memory to describe this model");
    client_fail(&err);
    return rc == E_RESOURCE_EXHAUSTED ? EXIT_JOB_FAILED : EXIT_USAGE;
}

const struct verb verb_model = {.name = "model", .command = &command, .run = run_model};
