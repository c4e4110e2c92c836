/* What a program that reports asks of the coordinator: checkpoints and the board. A call outlives
 * its connection, its worker and this socket without harm. Private to report_*.c. */
#ifndef LINK_REPORT_CALL_H
#define LINK_REPORT_CALL_H

#include "agent/link/report_state.h"

/* A call that waits; `number` is its name for the core. E_RESOURCE_EXHAUSTED names the limit. */
int report_call_new(struct reporter *r, struct lines_peer *peer, const struct report_line *line,
                    struct report_call **ret, struct error *err);
void report_call_end(struct report_call *call);

/* Pass it on; `call` is answered and ended, at once or later. */
void report_call_checkpoint(struct report_call *call, const struct agent_worker *worker,
                            const struct report_line *line);
void report_call_board(struct report_call *call, const struct agent_worker *worker,
                       const struct report_line *line);

/* The connection or the worker is over. */
void report_calls_forget_peer(struct report_socket *all, const struct lines_peer *peer);
void report_calls_forget_worker(struct report_socket *all, const struct reporter *r);
/* The socket is over. Calls that the coordinator has are freed when their client ends them. */
void report_calls_leave(struct report_socket *all);

#endif
