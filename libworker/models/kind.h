/* The config that a model of ours was made of, for its files: kept with the model. Any thread. */
#ifndef MODELS_KIND_H
#define MODELS_KIND_H

#include <stdbool.h>

#include <worker/graph.h>
#include <worker/nn.h>

#include "common/base/error.h"

enum model_family { FAMILY_GPT, FAMILY_LLAMA, FAMILY_MLP };

struct model_kind {
    enum model_family family;
    struct wk_gpt_config gpt; /* of FAMILY_GPT, and so on */
    struct wk_llama_config llama;
    struct wk_mlp_config mlp;
};

/* NULL for a model of the program's own. */
const struct model_kind *model_kind_of(const struct wk_model *model);

/* The model of a graph, with its kind. The model owns the graph, which is freed on failure.
 * WK_EINVAL, WK_ENOMEM: the sentence is stored for the thread. */
int model_of_kind(struct wk_graph *graph, const struct model_kind *kind,
                  struct wk_model **ret_model);

/* A number of a config, called `name`, in 1 … max. */
struct config_bound {
    const char *name;
    int64_t value, max;
};

/* WK_EINVAL names the first that does not. */
int config_check(const struct config_bound *bounds, int n, struct error *err);

enum {
    CONFIG_LAYERS_MAX = 1024,
    CONFIG_WIDTH_MAX = 65536,
    CONFIG_INNER_MAX = 1 << 20,
    CONFIG_CONTEXT_MAX = 1 << 20,
    CONFIG_VOCAB_MAX = 1 << 24,
    CONFIG_WINDOW_MAX = 1024,
};

#endif
