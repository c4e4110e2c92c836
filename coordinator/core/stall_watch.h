/* When a running job counts as stalled: an event, and a mark for REST and the page, both stored.
 * Only core_stalled reports shorter waits.
 *
 *     not stalled ──► stalled    a rank has waited in a collective for longer than the limit, or no
 *        ▲              │        step completed for so long that the ledger calls it a hang
 *        └──────────────┘        a step completed, or no rank waits any more, or it left `running`
 */
#ifndef CORE_STALL_WATCH_H
#define CORE_STALL_WATCH_H

#include "coordinator/core/step_state.h"

void stall_settle(struct step *step, struct job *job);
void stall_end(struct step *step, struct job *job); /* allowed for a job that is not stalled */

#endif
