#include "coordinator/core/tenant.h"

#include "coordinator/core/answer.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/tenant.h"

void tenant_set(struct step *step)
{
    const struct tenant *facts = step->event->tenant_set.facts;
    struct error err = {0};
    struct reason reason;
    if (cluster_set_tenant(step->cluster, facts, &err)) {
        step_refuse(step, &err);
        return;
    }
    reason_set(&reason, REASON_TENANT_SET,
               "tenant %s: weight %d, %d slots guaranteed, limit %d (0 = none)", facts->name,
               facts->weight, facts->guaranteed_slots, facts->limit_slots);
    step_record(step, "tenant", NULL, NULL, &reason);
    step->wants_pass = true;
    step_answer_node(step, "");
}
