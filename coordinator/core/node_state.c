#include "coordinator/core/node_state.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"
#include "coordinator/model/reason.h"

#define BIT(state) (1u << NODE_##state)
#define DRAINS     (BIT(DRAINING) | BIT(DRAINED))
static const unsigned allowed[] = {
    [NODE_JOINING] = BIT(READY) | BIT(CORDONED) | DRAINS | BIT(UNREACHABLE) | BIT(LOST),
    [NODE_READY] = BIT(JOINING) | BIT(CORDONED) | DRAINS | BIT(UNREACHABLE) | BIT(LOST),
    [NODE_CORDONED] = BIT(JOINING) | BIT(READY) | DRAINS | BIT(UNREACHABLE) | BIT(LOST),
    [NODE_DRAINING] =
        BIT(JOINING) | BIT(READY) | BIT(CORDONED) | BIT(DRAINED) | BIT(UNREACHABLE) | BIT(LOST),
    [NODE_DRAINED] =
        BIT(JOINING) | BIT(READY) | BIT(CORDONED) | BIT(DRAINING) | BIT(UNREACHABLE) | BIT(LOST),
    [NODE_UNREACHABLE] = BIT(JOINING) | BIT(READY) | BIT(CORDONED) | DRAINS | BIT(LOST),
    [NODE_LOST] = BIT(JOINING) | BIT(READY) | BIT(CORDONED) | DRAINS,
};
#undef DRAINS
#undef BIT

/* Reasons of cordoned nodes that are not an administrator's: a change between them is recorded. */
int node_own_reason(const struct reason *reason)
{
    return strcmp(reason->kind, reason_name(REASON_UNKILLABLE)) == 0   ? 1
           : strcmp(reason->kind, reason_name(REASON_NODE_FAULT)) == 0 ? 2
                                                                       : 0;
}

void node_set_state(struct step *step, struct node *node, enum node_state state,
                    const struct reason *reason)
{
    if (node->state == state && node_own_reason(&node->reason) != node_own_reason(reason)) {
        node->reason = *reason;
        step_store_node(step, node);
    }
    if (node->state == state)
        return;
    insist(allowed[node->state] >> state & 1);
    struct record *record = step_record(step, "node_state", NULL, node->name, reason);
    (void)str_copy(record->from, sizeof(record->from), node_state_name(node->state));
    (void)str_copy(record->to, sizeof(record->to), node_state_name(state));
    node->state = state;
    node->reason = *reason;
    step->wants_pass = true;
    step_store_node(step, node);
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e))
        step_revisit(step, e->value);
}

void node_note_fault(struct step *step, const char *name, const char *why)
{
    enum { PAUSE_MS = 30000, DOUBLINGS_MAX = 5, FORGOTTEN_MS = 3600000 };
    struct node *node = cluster_node(step->cluster, name);
    if (!node || node->fault_until_ms > step->now_ms)
        return;
    if (step->now_ms - node->fault_at_ms > FORGOTTEN_MS)
        node->faults = 0;
    int doublings = node->faults < DOUBLINGS_MAX ? node->faults : DOUBLINGS_MAX;
    node->faults++;
    node->fault_at_ms = step->now_ms;
    node->fault_until_ms = step->now_ms + ((int64_t)PAUSE_MS << doublings);
    if (str_copy(node->fault_text, sizeof(node->fault_text), why))
        (void)str_printf(node->fault_text, sizeof(node->fault_text), "%.240s ...", why);
}
