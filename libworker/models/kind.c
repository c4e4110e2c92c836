#include "libworker/models/kind.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>
#include <worker/graph.h>

#include "common/base/parse.h"
#include "libworker/nn/model.h"

const struct model_kind *model_kind_of(const struct wk_model *model)
{
    return model->kind;
}

int model_of_kind(struct wk_graph *graph, const struct model_kind *kind,
                  struct wk_model **ret_model)
{
    struct model_kind *copy = malloc(sizeof(*copy));
    if (!copy) {
        wk_graph_free(graph);
        return model_refuse_memory(ret_model);
    }
    *copy = *kind;
    int rc = wk_graph_model(graph, ret_model);
    if (rc)
        free(copy);
    else
        (*ret_model)->kind = copy;
    return rc;
}

int config_check(const struct config_bound *bounds, int n, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = number_within(bounds[i].name, bounds[i].value, 1, bounds[i].max, err);
    return rc;
}
