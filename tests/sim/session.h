/* What a scripted process says while it lives: libworker's session in miniature. Its steps are in
 * training.h. */
#ifndef SIM_SESSION_H
#define SIM_SESSION_H

#include "tests/sim/process.h"

void session_read_launch(struct process *process, const struct launch *launch);
void session_start(struct process *process); /* its main() begins */
void session_close(struct process *process); /* it has ended: the program goes */

void session_end(struct process *process, int code); /* main() returns */
void session_tick_in(struct process *process, int64_t ms);
void session_call(struct process *process, const char *method, const void *request,
                  int64_t timeout_ms, rpc_done done);

#endif
