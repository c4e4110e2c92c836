/* Assigns free nodes to waiting jobs, then to gangs that may grow. */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "coordinator/core/step_state.h"

void place_waiting(struct step *step);

#endif
