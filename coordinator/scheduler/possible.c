#include "coordinator/scheduler/possible.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"
#include "coordinator/scheduler/explain.h"
#include "coordinator/scheduler/filter.h"

static void refuse_for_ever(const struct spec *spec, const struct reason *reason, struct error *err)
{
    static const struct {
        enum reason_kind kind;
        const char *field;
    } fields[] = {{REASON_CONSTRAINT_UNMET, "constraints"},
                  {REASON_TOO_LARGE, "resources"},
                  {REASON_TOO_FEW_NODES, "nodes.min"},
                  {REASON_TOPOLOGY_UNMET, "topology"}};
    error_set(err, E_FAILED_PRECONDITION, "job '%s' can never start here: %s", spec->name,
              reason->text);
    error_hint(err, "%s", reason->hint);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(reason->kind, reason_name(fields[i].kind)) == 0)
            error_field(err, "%s", fields[i].field);
}

/* The common case, without reading all nodes. */
static bool enough_fit(const struct cluster *cluster, const struct spec *spec)
{
    int fitting = 0;
    for (const struct node *node = cluster_first_node(cluster); node && !spec->topology[0];
         node = cluster_next_node(cluster, node)) {
        if (!node_unmet_constraint(node, spec) && node_large_enough(node, spec))
            fitting++;
        if (fitting >= spec->nodes_min)
            return true;
    }
    return false;
}

/* The tenant's limit is below the needs of one gang. */
static int check_limit(const struct cluster *cluster, const struct spec *spec, struct error *err)
{
    const struct tenant *tenant = cluster_tenant(cluster, spec->tenant);
    int needs = spec_world(spec, spec->nodes_min) * spec->resources.slots;
    if (!tenant || !tenant->limit_slots || needs <= tenant->limit_slots)
        return 0;
    error_set(err, E_FAILED_PRECONDITION,
              "job '%s' can never start here: it needs %d slot%s, tenant %s may use %d at once",
              spec->name, needs, str_plural(needs), tenant->name, tenant->limit_slots);
    error_field(err, "tenant");
    error_hint(err, "ask for fewer or smaller workers, or have the tenant's limit raised");
    return E_FAILED_PRECONDITION;
}

static int check_nodes(struct view *view, const struct spec *spec, struct error *err)
{
    struct request request = {
        .spec = spec, .nodes_min = spec->nodes_min, .nodes_max = spec->nodes_max};
    struct reason reason;
    for (int i = 0; i < view->count; i++) /* as if all registered nodes were back */
        view->nodes[i].counted = true;
    if (!explain_permanent(view, &request, &reason))
        return 0;
    refuse_for_ever(spec, &reason, err);
    return E_FAILED_PRECONDITION;
}

int scheduler_possible_with(const struct cluster *cluster, const struct spec *spec,
                            struct node *const *more, int count, struct error *err)
{
    struct view view;
    if (check_limit(cluster, spec, err))
        return E_FAILED_PRECONDITION;
    if (enough_fit(cluster, spec))
        return 0;
    view_init(&view, cluster, 0);
    view_add_nodes(&view, more, count);
    int rc = check_nodes(&view, spec, err);
    view_fini(&view);
    return rc;
}

int scheduler_possible(const struct cluster *cluster, const struct spec *spec, struct error *err)
{
    return scheduler_possible_with(cluster, spec, NULL, 0, err);
}
