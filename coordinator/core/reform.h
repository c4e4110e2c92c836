/* Re-forms a gang in place: survivors keep their memory and their ranks. A rank that died on a
 * living node is replaced there. A lost or drained node is left out if enough nodes remain, or
 * replaced by a free one. */
#ifndef CORE_REFORM_H
#define CORE_REFORM_H

#include "coordinator/core/failure.h"
#include "coordinator/core/step_state.h"

/* False if that is impossible; nothing was changed then. */
bool reform(struct step *step, struct job *job, const struct failure *failure);
/* The same while the gang trains: new workers start in place of those on drained nodes, which stay
 * in the current group (move.h). Only where survivors are too few without them. */
bool reform_ahead(struct step *step, struct job *job, const struct failure *failure);

#endif
