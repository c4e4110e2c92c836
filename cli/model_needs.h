/* What training a model needs on each rank (libworker/estimate): by strategy, as a table
 * and a tree. */
#ifndef CLI_MODEL_NEEDS_H
#define CLI_MODEL_NEEDS_H

#include <worker/nn.h>

#include "common/base/args.h"
#include "common/base/error.h"

struct arena;
struct device;
struct tree;
struct wk_model;
struct wk_optimizer;

/* The rows of `muster model estimate` about how it is trained. */
#define NEEDS_OPTIONS                                                                              \
    {.name = "world",                                                                              \
     .letter = 'n',                                                                                \
     .kind = ARGS_OPTION,                                                                          \
     .type = ARGS_INTEGER,                                                                         \
     .fallback = "1",                                                                              \
     .value_name = "N",                                                                            \
     .help = "estimate: ranks"},                                                                   \
        {.name = "strategy",                                                                       \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_strategies,                                                              \
         .fallback = "all",                                                                        \
         .help = "estimate: how the state is spread"},                                             \
        {.name = "mixed-precision",                                                                \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_precisions,                                                              \
         .fallback = "no",                                                                         \
         .help = "type of the products' factors"},                                                 \
        {.name = "optimizer",                                                                      \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_optimizers,                                                              \
         .fallback = "adamw",                                                                      \
         .help = "estimate, count: whose state and update are counted"},                           \
        {.name = "recompute",                                                                      \
         .kind = ARGS_OPTION,                                                                      \
         .offers = needs_policies,                                                                 \
         .fallback = "none",                                                                       \
         .value_name = "POLICY",                                                                   \
         .help = "what the backward pass computes again: as the setting, a size is of "            \
                 "activations"},                                                                   \
        {.name = "device",                                                                         \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_devices,                                                                 \
         .fallback = "cpu",                                                                        \
         .help = "the device that computes; cuda needs the module for GPUs, but no GPU"},          \
        {.name = "attention",                                                                      \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_attentions,                                                              \
         .fallback = "auto",                                                                       \
         .help = "cuda: which attention it computes, as the setting"},                             \
        {.name = "compile",                                                                        \
         .kind = ARGS_OPTION,                                                                      \
         .choices = needs_compiles,                                                                \
         .fallback = "auto",                                                                       \
         .help = "cuda: whether passes and updates are repeated as graphs, as the setting"},       \
        {.name = "low-gradients",                                                                  \
         .kind = ARGS_FLAG,                                                                        \
         .help = "estimate: gradients are kept in the narrow type"},                               \
        {.name = "offload-state",                                                                  \
         .kind = ARGS_FLAG,                                                                        \
         .help = "estimate, cuda: the optimizer's state is in the host's memory"},                 \
        {.name = "offload-masters",                                                                \
         .kind = ARGS_FLAG,                                                                        \
         .help = "estimate, cuda, bf16 and fp16: parameters in float are in the host's memory"},   \
    {                                                                                              \
        .name = "offload-activations", .kind = ARGS_FLAG,                                          \
        .help = "cuda: the largest values wait in the host's memory for the backward pass"         \
    }
extern const char *const needs_strategies[],
    *const needs_precisions[], *const needs_optimizers[], *const needs_policies[],
                                                              *const needs_devices[],
                                                                  *const needs_attentions[],
                                                                      *const needs_compiles[];

/* How a training pass is computed, by the options. E_INVALID_ARGUMENT. */
struct needs_pass {
    enum wk_dtype compute;
    enum wk_recompute recompute;
    int64_t within; /* bytes */
    bool offload;   /* --offload-activations, which needs --device cuda */
};
int needs_pass(const struct args *args, struct needs_pass *ret, struct error *err);

/* The optimizer of the options, for any model. Free it with wk_optimizer_free. WK_ENOMEM. */
int needs_optimizer(const struct args *args, struct wk_optimizer **ret, struct error *err);

/* The device of the options, only to plan for; NULL: the host's. Free with device_free.
 * WK_ENOTFOUND, WK_EUNSUPPORTED, WK_EMISMATCH: there is no module for GPUs, or it cannot be used.
 */
int needs_device(const struct args *args, struct device **ret, struct error *err);

enum { NEEDS_ROWS_MAX = 4 };
struct needs;

/* The estimates that the options ask for on a device; needs_free. A failure names what is wrong:
 * numbers outside limits, or options that do not go together. Strategies that cannot be are left
 * out unless one was asked for. */
int needs_new(const struct args *args, struct wk_model *model, const struct device *device,
              struct needs **ret, struct error *err);
void needs_free(struct needs *needs); /* NULL is fine */

/* On standard output. */
void needs_table(const struct needs *needs);

/* Into the map `root`: {"parameters", "world", "batch", …, "strategies": [{"strategy",
 * "total_bytes", …}]}. E_RESOURCE_EXHAUSTED. */
int needs_tree(const struct needs *needs, struct arena *arena, struct tree *root);

#endif
