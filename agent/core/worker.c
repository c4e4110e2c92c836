#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/state.h"
#include "common/base/assert.h"
#include "common/base/str.h"

static int key_compare(const struct worker_key *a, const struct worker_key *b)
{
    int order = strcmp(a->job, b->job);
    if (order)
        return order;
    return a->uid < b->uid ? -1 : a->uid > b->uid;
}

struct agent_worker *agent_worker_find(const struct agent_core *core, const struct worker_key *key)
{
    for (struct agent_worker *w = core->workers; w; w = w->next)
        if (key_compare(&w->key, key) == 0)
            return w;
    return NULL;
}

struct agent_worker *agent_worker_add(struct agent_core *core, const struct worker_key *key)
{
    if (core->count == AGENT_WORKERS_MAX)
        return NULL;
    struct agent_worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return NULL;
    worker->key = *key;
    struct agent_worker **at = &core->workers;
    while (*at && key_compare(&(*at)->key, key) < 0)
        at = &(*at)->next;
    worker->next = *at;
    *at = worker;
    core->count++;
    return worker;
}

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

/* The drawing of step.h; [from][to] */
static const bool allowed[4][4] = {
    [AGENT_WORKER_STARTING] = {[AGENT_WORKER_JOINED] = true,
                               [AGENT_WORKER_STOPPING] = true,
                               [AGENT_WORKER_EXITED] = true},
    [AGENT_WORKER_JOINED] = {[AGENT_WORKER_JOINED] = true,
                             [AGENT_WORKER_STOPPING] = true,
                             [AGENT_WORKER_EXITED] = true},
    [AGENT_WORKER_STOPPING] = {[AGENT_WORKER_EXITED] = true},
};

void agent_worker_become(struct agent_worker *worker, enum agent_worker_state state)
{
    insist(allowed[worker->state][state]);
    worker->state = state;
}

bool agent_worker_runs(const struct agent_worker *worker)
{
    return worker->state != AGENT_WORKER_EXITED;
}

static int64_t grace_ms(const struct agent_worker *worker)
{
    if (worker->assignment && worker->assignment->grace_ms > 0)
        return worker->assignment->grace_ms;
    return AGENT_GRACE_DEFAULT_MS;
}

void agent_worker_stop(struct agent_worker *worker, int64_t now_ms, struct agent_actions *actions)
{
    int64_t kill_at_ms = now_ms + grace_ms(worker);
    if (worker->state == AGENT_WORKER_EXITED)
        return;
    if (worker->state == AGENT_WORKER_STOPPING) {
        if (kill_at_ms < worker->kill_at_ms)
            worker->kill_at_ms = kill_at_ms;
        return;
    }
    if (worker->waits) {
        agent_worker_unstarted(worker, "stopped before it started", actions);
        return;
    }
    agent_worker_become(worker, AGENT_WORKER_STOPPING);
    worker->kill_at_ms = kill_at_ms;
    agent_actions_add(actions, AGENT_ACTION_TERMINATE)->key = worker->key;
    agent_hub_settle(worker, actions);
    agent_actions_add(actions, AGENT_ACTION_REPORT);
}

void agent_worker_stuck(struct agent_worker *worker, const struct worker_stuck *stuck,
                        int64_t now_ms, struct agent_actions *actions)
{
    worker->stuck = *stuck;
    if (worker->state != AGENT_WORKER_STOPPING) {
        agent_worker_become(worker, AGENT_WORKER_STOPPING);
        worker->kill_at_ms = now_ms + AGENT_KILL_AGAIN_MS;
        agent_hub_settle(worker, actions);
    }
    agent_actions_add(actions, AGENT_ACTION_REPORT);
}

void agent_worker_ended(struct agent_worker *worker, const struct worker_exit *exit,
                        struct agent_actions *actions)
{
    agent_worker_become(worker, AGENT_WORKER_EXITED);
    worker->process = false;
    worker->stuck.count = 0;
    worker->joining = 0;
    worker->wait = (struct worker_wait){0};
    worker->exit = *exit;
    agent_hub_close(worker, actions);
    agent_actions_add(actions, AGENT_ACTION_REPORT);
}

void agent_worker_unstarted(struct agent_worker *worker, const char *why,
                            struct agent_actions *actions)
{
    struct worker_exit exit = {.signal = SIGTERM};
    (void)str_copy(exit.text, sizeof(exit.text), why);
    worker->shipped = true;
    worker->waits = false;
    agent_worker_ended(worker, &exit, actions);
}

bool agent_worker_buried(const struct agent_core *core, const struct worker_key *key)
{
    uint64_t kept = core->buried < AGENT_TOMBSTONES_MAX ? core->buried : AGENT_TOMBSTONES_MAX;
    for (uint64_t i = 0; i < kept; i++)
        if (key_compare(&core->tombstones[i], key) == 0)
            return true;
    return false;
}

void agent_worker_bury_if_done(struct agent_core *core, struct agent_worker *worker,
                               struct agent_actions *actions)
{
    if (worker->state != AGENT_WORKER_EXITED || worker->desired || !worker->shipped ||
        !core->registered)
        return;
    agent_actions_add(actions, AGENT_ACTION_FORGET)->key = worker->key;
    core->tombstones[core->buried++ % AGENT_TOMBSTONES_MAX] = worker->key;
    struct agent_worker **at = &core->workers;
    while (*at != worker)
        at = &(*at)->next;
    *at = worker->next;
    core->count--;
    assignment_release(worker->assignment);
    free(worker);
}

void agent_worker_remember(struct agent_worker *worker, struct agent_actions *actions)
{
    struct agent_action *action = agent_actions_add(actions, AGENT_ACTION_REMEMBER);
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
