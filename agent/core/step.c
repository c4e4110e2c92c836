#include "agent/core/step.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/desired.h"
#include "agent/core/hub.h"
#include "agent/core/state.h"
#include "agent/core/stop.h"
#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/base/token.h"

struct agent_core *agent_core_new(void)
{
    return calloc(1, sizeof(struct agent_core));
}

void agent_core_free(struct agent_core *core)
{
    if (!core)
        return;
    for (struct agent_worker *w = core->workers, *next; w; w = next) {
        next = w->next;
        assignment_release(w->assignment);
        free(w);
    }
    free(core);
}

const struct agent_worker *agent_core_first(const struct agent_core *core)
{
    return core->workers;
}

const struct agent_worker *agent_core_find(const struct agent_core *core,
                                           const struct worker_key *key)
{
    return agent_worker_find(core, key);
}

bool agent_core_registered(const struct agent_core *core)
{
    return core->registered;
}

/* An earlier agent started it. The coordinator's first answer decides about it; until then it
 * continues. */
static void adopt(struct agent_core *core, const struct worker_found *found,
                  struct agent_actions *ret)
{
    struct agent_worker *worker = agent_worker_find(core, &found->key);
    if (worker || !(worker = agent_worker_add(core, &found->key)))
        return;
    worker->memory = found->memory;
    worker->pid = found->pid;
    worker->desired = true;
    if (found->memory.generation > 0)
        agent_worker_set_state(worker, AGENT_WORKER_JOINED);
    worker->process = !found->exited;
    if (found->exited)
        agent_worker_end(worker, &found->exit, ret);
}

static void stop_all(struct agent_core *core, int64_t now_ms, struct agent_actions *ret)
{
    core->stopping_all = true;
    for (struct agent_worker *w = core->workers; w; w = w->next)
        agent_worker_stop(w, now_ms, ret);
}

static void kill_all(struct agent_core *core, int64_t now_ms, struct agent_actions *ret)
{
    stop_all(core, now_ms, ret);
    for (struct agent_worker *w = core->workers; w; w = w->next)
        w->kill_at_ms = w->state == AGENT_WORKER_STOPPING ? now_ms : w->kill_at_ms;
}

static void worker_event(struct agent_core *core, const struct agent_event *event,
                         struct agent_actions *ret)
{
    struct agent_worker *worker = agent_worker_find(core, &event->key);
    if (!worker || (!agent_worker_runs(worker) && event->kind != AGENT_EVENT_SHIPPED)) {
        agent_hub_refuse(event->request, E_NOT_FOUND, "no such worker runs here", ret);
        return;
    }
    switch (event->kind) {
    case AGENT_EVENT_STARTED:
        worker->pid = event->started.pid;
        agent_actions_add(ret, AGENT_ACTION_REPORT);
        break;
    case AGENT_EVENT_START_FAILED:
        agent_worker_fail_start(worker, event->start_code, event->start_error, ret);
        break;
    case AGENT_EVENT_STUCK:
        agent_worker_set_stuck(worker, event->stuck, event->now_ms, ret);
        break;
    case AGENT_EVENT_EXITED:
        agent_worker_end(worker, event->exit, ret);
        break;
    case AGENT_EVENT_SHIPPED:
        worker->shipped = worker->shipped || !agent_worker_runs(worker);
        break;
    case AGENT_EVENT_HELLO:
        agent_hub_hello(worker, event, ret);
        break;
    case AGENT_EVENT_JOIN:
        agent_hub_join(worker, event, ret);
        break;
    case AGENT_EVENT_WATCH:
        agent_hub_watch(worker, event, ret);
        break;
    case AGENT_EVENT_PROGRESS:
        agent_hub_progress(worker, event, ret);
        break;
    case AGENT_EVENT_LOST_PEERS:
        agent_hub_lost_peers(worker, event, ret);
        break;
    case AGENT_EVENT_TICK:
    case AGENT_EVENT_FOUND:
    case AGENT_EVENT_REGISTERED:
    case AGENT_EVENT_UNREGISTERED:
    case AGENT_EVENT_FENCED:
    case AGENT_EVENT_DESIRED:
    case AGENT_EVENT_GPUS:
    case AGENT_EVENT_STOP_ALL:
    case AGENT_EVENT_KILL_ALL:
        insist(!"an event about the agent");
    }
    agent_worker_forget_if_done(core, worker, ret);
}

static int64_t earlier_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Do what is due; returns when something is due next. */
static int64_t do_due(struct agent_core *core, int64_t now_ms, struct agent_actions *ret)
{
    int64_t next_ms = INT64_MAX;
    for (struct agent_worker *w = core->workers; w; w = w->next) {
        agent_hub_expire(w, now_ms, ret);
        if (w->state == AGENT_WORKER_STOPPING) {
            if (w->kill_at_ms <= now_ms) {
                agent_actions_add(ret, AGENT_ACTION_KILL)->key = w->key;
                w->kill_at_ms = now_ms + AGENT_KILL_AGAIN_MS;
            }
            next_ms = earlier_of(next_ms, w->kill_at_ms);
        }
        if (w->join.request)
            next_ms = earlier_of(next_ms, w->join.deadline_ms - AGENT_ANSWER_MARGIN_MS);
        if (w->watch.request)
            next_ms = earlier_of(next_ms, w->watch.deadline_ms - AGENT_ANSWER_MARGIN_MS);
    }
    return next_ms;
}

void agent_step(struct agent_core *core, const struct agent_event *event, struct agent_actions *ret)
{
    if (core->left) {
        agent_hub_refuse(event->request, E_UNAVAILABLE, "a newer agent of this node has taken over",
                         ret);
        return;
    }
    switch (event->kind) {
    case AGENT_EVENT_TICK:
        break;
    case AGENT_EVENT_FOUND:
        adopt(core, event->found, ret);
        break;
    case AGENT_EVENT_REGISTERED:
        core->registered = true;
        agent_actions_add(ret, AGENT_ACTION_REPORT);
        break;
    case AGENT_EVENT_UNREGISTERED:
        core->registered = false;
        agent_actions_add(ret, AGENT_ACTION_REGISTER);
        break;
    case AGENT_EVENT_FENCED:
        core->left = true;
        agent_actions_add(ret, AGENT_ACTION_LEAVE);
        break;
    case AGENT_EVENT_DESIRED:
        agent_desired_apply(core, event, ret);
        break;
    case AGENT_EVENT_GPUS:
        agent_slots_read(core, event, ret);
        break;
    case AGENT_EVENT_STOP_ALL:
        stop_all(core, event->now_ms, ret);
        break;
    case AGENT_EVENT_KILL_ALL:
        kill_all(core, event->now_ms, ret);
        break;
    case AGENT_EVENT_STARTED:
    case AGENT_EVENT_START_FAILED:
    case AGENT_EVENT_STUCK:
    case AGENT_EVENT_EXITED:
    case AGENT_EVENT_SHIPPED:
    case AGENT_EVENT_HELLO:
    case AGENT_EVENT_JOIN:
    case AGENT_EVENT_WATCH:
    case AGENT_EVENT_PROGRESS:
    case AGENT_EVENT_LOST_PEERS:
        worker_event(core, event, ret);
        break;
    }
    int64_t held_ms = agent_slots_settle(core, event->now_ms, ret);
    agent_desired_start(core, ret);
    int64_t next_ms = earlier_of(held_ms, do_due(core, event->now_ms, ret));
    if (next_ms < INT64_MAX)
        agent_actions_add(ret, AGENT_ACTION_WAKE_AT)->at_ms = next_ms;
    agent_core_check(core);
}

static bool token_is(const char *token, const char *known)
{
    size_t size = strlen(known);
    return size > 0 && strlen(token) == size && bytes_equal_constant_time(token, known, size);
}

static bool is_token_of(const struct agent_worker *worker, const char *token)
{
    if (worker->assignment && token_is(token, worker->assignment->token))
        return true;
    for (int i = 0; i < AGENT_TOKENS_KEPT; i++)
        if (token_is(token, worker->memory.tokens[i]))
            return true;
    return false;
}

int agent_core_identify(const struct agent_core *core, const char *token, struct worker_key *ret,
                        struct error *err)
{
    bool all_known = core->registered;
    for (const struct agent_worker *w = core->workers; w; w = w->next) {
        all_known = all_known && w->assignment;
        if (is_token_of(w, token)) {
            *ret = w->key;
            return 0;
        }
    }
    if (!all_known)
        return error_set(err, E_UNAVAILABLE, "this agent has not heard from the coordinator yet");
    return error_set(err, E_UNAUTHENTICATED, "this is not a token of a worker of this node");
}

int agent_core_authorize(const struct agent_core *core, const struct worker_key *key,
                         const char *token, bool old_ok, struct error *err)
{
    const struct agent_worker *worker = agent_worker_find(core, key);
    if (!worker)
        return error_set(err, core->registered ? E_NOT_FOUND : E_UNAVAILABLE,
                         "worker %s/%llu does not run here", key->job,
                         (unsigned long long)key->uid);
    const char *newest = worker->assignment ? worker->assignment->token : worker->memory.tokens[0];
    bool current = token_is(token, newest), old = false;
    for (int i = 0; i < AGENT_TOKENS_KEPT; i++)
        old = token_is(token, worker->memory.tokens[i]) || old;
    if (current || (old && old_ok))
        return 0;
    if (old)
        return error_set(err, E_ABORTED, "the generation of this worker is over");
    if (!worker->assignment)
        return error_set(err, E_UNAVAILABLE, "this agent has not heard from the coordinator yet");
    return error_set(err, E_UNAUTHENTICATED, "this is not a token of worker %s/%llu", key->job,
                     (unsigned long long)key->uid);
}

void agent_core_check(const struct agent_core *core)
{
    int count = 0;
    for (const struct agent_worker *w = core->workers; w; w = w->next) {
        count++;
        if (w->next) {
            int order = strcmp(w->key.job, w->next->key.job);
            insist(order < 0 || (order == 0 && w->key.uid < w->next->key.uid));
        }
        never(w->state == AGENT_WORKER_EXITED && w->process);
        insist(implies(w->waits, w->state == AGENT_WORKER_STARTING && !w->process));
        never(w->state == AGENT_WORKER_EXITED && (w->join.request || w->watch.request));
        never(w->state == AGENT_WORKER_STOPPING && w->watch.request);
        insist(implies(w->state == AGENT_WORKER_JOINED, w->memory.generation > 0));
        insist(implies(w->state == AGENT_WORKER_STOPPING, w->kill_at_ms > 0));
        insist(implies(w->shipped, w->state == AGENT_WORKER_EXITED));
        insist(implies(w->stuck.count > 0, w->state == AGENT_WORKER_STOPPING && w->process));
        insist(implies(w->lost_ranks_count > 0, w->broken > 0));
        insist(!w->assignment || w->assignment->references > 0);
        never(w->joining && w->joining <= w->memory.generation);
    }
    insist(count == core->count);
}
