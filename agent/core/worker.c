#include "agent/core/worker.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"

const char *agent_worker_state_name(enum agent_worker_state state)
{
    switch (state) {
#define X(upper, lower)                                                                            \
    case AGENT_WORKER_##upper:                                                                     \
        return #lower;
        AGENT_WORKER_STATES(X)
#undef X
    }
    return "?";
}

/* The drawing of worker.h; [from][to] */
static const bool allowed[4][4] = {
    [AGENT_WORKER_STARTING] = {[AGENT_WORKER_JOINED] = true,
                               [AGENT_WORKER_STOPPING] = true,
                               [AGENT_WORKER_EXITED] = true},
    [AGENT_WORKER_JOINED] = {[AGENT_WORKER_JOINED] = true,
                             [AGENT_WORKER_STOPPING] = true,
                             [AGENT_WORKER_EXITED] = true},
    [AGENT_WORKER_STOPPING] = {[AGENT_WORKER_EXITED] = true},
};

void agent_worker_set_state(struct agent_worker *worker, enum agent_worker_state state)
{
    insist(allowed[worker->state][state]);
    worker->state = state;
}

bool agent_worker_runs(const struct agent_worker *worker)
{
    return worker->state != AGENT_WORKER_EXITED;
}

void agent_worker_remember(struct agent_worker *worker, struct agent_actions *ret)
{
    struct agent_action *action = agent_actions_add(ret, AGENT_ACTION_REMEMBER);
    action->key = worker->key;
    action->memory = worker->memory;
}

void agent_worker_hold_token(struct agent_worker *worker, const char *token)
{
    char(*tokens)[AGENT_TOKEN_MAX + 1] = worker->memory.tokens;
    if (!token[0] || strlen(token) > AGENT_TOKEN_MAX || strcmp(tokens[0], token) == 0)
        return;
    memmove(tokens[1], tokens[0], sizeof(tokens[0]) * (AGENT_TOKENS_KEPT - 1));
    (void)str_copy(tokens[0], sizeof(tokens[0]), token);
}
