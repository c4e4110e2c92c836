/* The states of nodes, jobs and workers. coordinator/core has the drawings and the allowed moves:
 * node_state.h and job_state.h.
 */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include <stdbool.h>

/* clang-format off */
#define NODE_STATES(X)                                                                             \
    X(JOINING, joining)                                                                            \
    X(READY, ready)                                                                                \
    X(CORDONED, cordoned)                                                                          \
    X(DRAINING, draining)                                                                          \
    X(DRAINED, drained)                                                                            \
    X(UNREACHABLE, unreachable)                                                                    \
    X(LOST, lost)
#define JOB_STATES(X)                                                                              \
    X(QUEUED, queued)                                                                              \
    X(STARTING, starting)                                                                          \
    X(RUNNING, running)                                                                            \
    X(REFORMING, reforming)                                                                        \
    X(RESTARTING, restarting)                                                                      \
    X(PREEMPTING, preempting)                                                                      \
    X(STOPPING, stopping)                                                                          \
    X(SUCCEEDED, succeeded)                                                                        \
    X(FAILED, failed)                                                                              \
    X(CANCELLED, cancelled)
#define WORKER_STATES(X)                                                                           \
    X(ASSIGNED, assigned)                                                                          \
    X(STARTING, starting)                                                                          \
    X(JOINED, joined)                                                                              \
    X(STOPPING, stopping)                                                                          \
    X(EXITED, exited)
/* clang-format on */

enum node_state {
#define X(upper, lower) NODE_##upper,
    NODE_STATES(X)
#undef X
};
enum job_state {
#define X(upper, lower) JOB_##upper,
    JOB_STATES(X)
#undef X
};
enum worker_state {
#define X(upper, lower) WORKER_##upper,
    WORKER_STATES(X)
#undef X
};

const char *node_state_name(enum node_state state); /* "ready", as in proto and REST */
const char *job_state_name(enum job_state state);
const char *worker_state_name(enum worker_state state);
bool job_state_ended(enum job_state state);

#endif
