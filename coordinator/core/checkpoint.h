/* Commits of checkpoints. A checkpoint counts when it is accepted here: only from the generation
 * that trains now, or from one that ends without a successor. */
#ifndef CORE_CHECKPOINT_H
#define CORE_CHECKPOINT_H

#include "coordinator/core/step_state.h"

void checkpoint_commit(struct step *step); /* by EVENT_CHECKPOINT */
/* E_FAILED_PRECONDITION if an unfinished job writes into this job's checkpoint folder. Also if a
 * finished job left checkpoints there, unless this job names what it resumes from. */
int checkpoint_folder_free(const struct cluster *cluster, const struct spec *spec,
                           struct error *err);

#endif
