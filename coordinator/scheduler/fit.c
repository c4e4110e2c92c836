#include "coordinator/scheduler/fit.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/gang.h"

void fit_init(struct fit *fit, struct view *view, const struct request *request)
{
    const char *topology = request->spec->topology;
    *fit = (struct fit){.view = view, .request = request};
    if (topology[0])
        gang_number_groups(view, topology);
    fit->candidate = calloc((size_t)view->count + 1, sizeof(*fit->candidate));
    fit->sizes = calloc(topology[0] ? (size_t)view->groups + 1 : 1, sizeof(*fit->sizes));
    insist(fit->candidate && fit->sizes);
    for (int i = 0; i < view->count; i++)
        fit_update(fit, i);
}

void fit_fini(struct fit *fit)
{
    free(fit->candidate);
    free(fit->sizes);
    *fit = (struct fit){0};
}

void fit_update(struct fit *fit, int index)
{
    const struct view_node *node = &fit->view->nodes[index];
    bool has_topology = fit->request->spec->topology[0] != 0;
    int group = has_topology ? node->group : 0;
    bool now = node_is_candidate(node, fit->request);
    if (now == fit->candidate[index] || (has_topology && group == 0))
        return;
    int least = fit->request->nodes_min;
    fit->candidate[index] = now;
    fit->whole -= fit->sizes[group] >= least;
    fit->sizes[group] += now ? 1 : -1;
    if (fit->sizes[group] >= least)
        fit->whole++;
}

bool fit_holds(const struct fit *fit)
{
    return fit->whole > 0;
}
