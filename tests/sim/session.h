/* What a scripted process does while it lives: libworker's session in miniature, and steps that
 * need every rank, as an all-reduce does. */
#ifndef SIM_SESSION_H
#define SIM_SESSION_H

#include "tests/sim/process.h"

void session_read_launch(struct process *process, const struct launch *launch);
void session_start(struct process *process); /* its main() begins */
void session_close(struct process *process); /* it has ended: the program goes */

#endif
