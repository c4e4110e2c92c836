/* Finds the ranks that delay a running gang. A stuck rank reports nothing, but the ranks that wait
 * for it in a collective do: a rank that is waited for and does not wait itself is late. A rank
 * that was stopped during a wait still seems to wait, but in an earlier operation than the ranks
 * that wait for it. Connecting counts as the operation before the first. */
#ifndef CORE_STALL_H
#define CORE_STALL_H

#include "coordinator/model/cluster.h"

/* True if ranks of a running job wait in a collective; also how long the first one has waited. */
bool stall_in_collective(const struct job *job, struct reason *ret, int64_t *ret_waited_ms);
/* No rank reports a wait, but no step completes. */
void stall_without_wait(const struct job *job, struct reason *ret);

/* True if a running job is stalled; ret then names the waiting ranks and the operation. Stalled
 * means: ranks have waited for others for more than a second, no step completes
 * (ledger_hangs_at_ms), or some members of its next group are missing. Pure. */
bool core_stalled(const struct job *job, struct reason *ret);

#endif
