#include "agent/core/state.h"

#include <stdlib.h>
#include <string.h>

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

bool agent_worker_is_forgotten(const struct agent_core *core, const struct worker_key *key)
{
    uint64_t kept = core->forgotten < AGENT_TOMBSTONES_MAX ? core->forgotten : AGENT_TOMBSTONES_MAX;
    for (uint64_t i = 0; i < kept; i++)
        if (key_compare(&core->tombstones[i], key) == 0)
            return true;
    return false;
}

void agent_worker_forget_if_done(struct agent_core *core, struct agent_worker *worker,
                                 struct agent_actions *ret)
{
    if (worker->state != AGENT_WORKER_EXITED || worker->desired || !worker->shipped ||
        !core->registered)
        return;
    agent_actions_add(ret, AGENT_ACTION_FORGET)->key = worker->key;
    core->tombstones[core->forgotten++ % AGENT_TOMBSTONES_MAX] = worker->key;
    struct agent_worker **at = &core->workers;
    while (*at != worker)
        at = &(*at)->next;
    *at = worker->next;
    core->count--;
    assignment_release(worker->assignment);
    free(worker);
}
