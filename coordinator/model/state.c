/* States of nodes, jobs and workers. */
#include "coordinator/model/state.h"

const char *node_state_name(enum node_state state)
{
    static const char *const names[] = {
#define X(upper, lower) #lower,
        NODE_STATES(X)
#undef X
    };
    return names[state];
}

const char *job_state_name(enum job_state state)
{
    static const char *const names[] = {
#define X(upper, lower) #lower,
        JOB_STATES(X)
#undef X
    };
    return names[state];
}

const char *worker_state_name(enum worker_state state)
{
    static const char *const names[] = {
#define X(upper, lower) #lower,
        WORKER_STATES(X)
#undef X
    };
    return names[state];
}

bool job_state_ended(enum job_state state)
{
    return state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
}
