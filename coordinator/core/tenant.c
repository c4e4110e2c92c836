/* Guarantees and limits of tenants. A new limit takes nothing from running jobs. */
#include "common/base/str.h"
#include "coordinator/core/internal.h"

void tenant_set(struct step *step)
{
    const struct tenant *facts = step->event->tenant_set.facts;
    struct error err = {0};
    struct reason reason;
    if (cluster_set_tenant(step->cluster, facts, &err) < 0) {
        step_refuse(step, &err);
        return;
    }
    reason_set(&reason, REASON_TENANT_SET,
               "tenant %s: weight %d, %d slots guaranteed, limit %d (0 = none)", facts->name,
               facts->weight, facts->guaranteed_slots, facts->limit_slots);
    step_record(step, "tenant", NULL, NULL, &reason);
    step->place = true;
    step_answer_node(step, "");
}
