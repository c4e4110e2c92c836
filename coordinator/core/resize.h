/* Changes the size of gangs that cannot change it in place, because their program does not use
 * libworker or they are `elastic: restart`. They end with grace, and restart from their checkpoint
 * with as many nodes as there are.
 *
 * This costs the work since the checkpoint and the time to start, so it is not done for a node that
 * soon leaves again. There must have been free nodes for RESIZE_CAPACITY_MS, and the gang must have
 * run for RESIZE_SETTLE_MS. Each growth doubles the wait for the next one, unless none was due for
 * GROW_BACKOFF_MAX_MS. What `scale` asks for is done at once.
 *
 * A gang of silent workers may be importing, and join a moment later: then it changes its size in
 * place. So it is not restarted before one reports and does not join, or before
 * FIRST_WORD_MS are over.
 *
 * While the gang ends its nodes are free, so it is not done while a waiting job could use them.
 * Until it is due other gangs may use those nodes as spares; while it ends no spare is added
 * (place.h).
 */
#ifndef CORE_RESIZE_H
#define CORE_RESIZE_H

#include "coordinator/core/step_state.h"
#include "coordinator/scheduler/pass.h"

bool resize_restarts(const struct job *job); /* it runs, and changes its size only by a restart */
bool resize_may_grow(const struct job *job);
int resize_least(const struct job *job); /* the least number of additional nodes, or 0 */
/* This many more nodes are free, 0 = none. The job restarts with them when that is due. */
void resize_note_capacity(struct step *step, struct job *job, int nodes);
int64_t resize_due(const struct job *job);                 /* 0 = no free nodes were seen */
bool resize_is_due(const struct job *job, int64_t now_ms); /* it restarts now if nodes are free */
bool resize_under_way(const struct job *job); /* it is ending in order to restart with more nodes */
/* No job refused in this pass could take its nodes from it. */
bool resize_is_safe(const struct step *step, const struct job *job, const struct pass *pass);
/* Until when a program that may be importing is waited for; 0 = it is known that it restarts. */
int64_t resize_silence_ends(const struct job *job);
/* To the requested size, once that wait is over. */
void resize_shrink(struct step *step, struct job *job);

#endif
