/* Reports of agents about their workers. The states of one worker:
 *
 *     assigned ──► starting ──► joined ──► exited        stopping: between SIGTERM and the exit
 *          └───────────┴──────────┴─► stopping ──► exited
 */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "coordinator/core/step_state.h"

/* Apply a node's whole inventory. Workers that it does not name any more have ended. */
void reports_apply(struct step *step, struct node *node, const struct worker_report *reports,
                   int count);

#endif
