/* New workers that are not ready yet, in a gang that re-forms. Survivors that fill enough nodes
 * become the current generation without them. The next one forms of all, as growth does, while the
 * survivors train (docs/adr/0017-survivors-go-on-at-once.md).
 *
 * A node counts as a whole: where one of its workers is new and not ready, the others there wait
 * with it. A program that is known to start within NEWCOMER_FAST_MS is waited for, so that the gang
 * re-forms only once: for NEWCOMER_PATIENCE_MS at most, as it may be slower this time.
 */
#ifndef CORE_NEWCOMERS_H
#define CORE_NEWCOMERS_H

#include "coordinator/core/step_state.h"
#include "coordinator/rendezvous/ranks.h"

/* True while a gang that trains is to grow and no new worker is ready: more may start with
 * them. Else those of a node that is added later would wait until these have joined. */
bool newcomers_all_start(const struct job *job);
/* True if the forming group is to be published without those. */
bool newcomers_are_late(const struct job *job, int64_t now_ms);
/* When the wait for them ends; INT64_MAX = there is none. */
int64_t newcomers_wake_at(const struct job *job);
/* Only where they are late: narrow the forming group to the nodes that are ready. The workers set
 * aside are in no group until newcomers_form. It forms the next one, of the group published
 * meanwhile and them. If the job may not have that many nodes, it stops them. Releases `late`. */
struct late {
    struct rank_request *workers;
    int count;
};
void newcomers_set_aside(struct step *step, struct job *job, struct late *ret);
void newcomers_form(struct step *step, struct job *job, struct late *late);

#endif
