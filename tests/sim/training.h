/* The steps of a scripted process: each needs every rank, as an all-reduce does; a peer that ended
 * or left is reported lost; rank 0 commits checkpoints through the coordinator, and a last one when
 * it is told to stop.
 */
#ifndef SIM_TRAINING_H
#define SIM_TRAINING_H

#include "tests/sim/process.h"

void training_step(struct process *process);         /* one attempt; asks for the next by itself */
bool training_stop(struct process *process);         /* it saves, then ends; false: not it */
void training_step_unaware(struct process *process); /* of a program that knows nothing of us */

#endif
