#include "agent/core/desired.h"

#include <string.h>

#include "agent/core/hub.h"
#include "agent/core/slot.h"
#include "agent/core/stop.h"
#include "common/base/str.h"

static void replace_assignment(struct agent_worker *worker, struct assignment *assignment)
{
    struct assignment *old = worker->assignment;
    worker->assignment = assignment_hold(assignment);
    assignment_release(old);
}

static void add_desired(struct agent_core *core, struct assignment *assignment,
                        struct agent_actions *ret)
{
    if (agent_worker_is_forgotten(core, &assignment->key))
        return;
    struct agent_worker *worker = agent_worker_add(core, &assignment->key);
    if (!worker)
        return; /* beyond AGENT_WORKERS_MAX: the coordinator sees that it never joins */
    worker->desired = true;
    worker->memory.signal_wall_ms = assignment->signal_wall_ms;
    worker->stacks_wall_ms = assignment->stacks_wall_ms; /* a request to those before it */
    replace_assignment(worker, assignment);
    if (assignment->stop) {
        agent_worker_end_unstarted(worker, "stopped before it started", ret);
        return;
    }
    if (core->stopping_all) {
        agent_worker_end_unstarted(worker, "the agent is leaving", ret);
        return;
    }
    worker->waits = true;
    agent_worker_hold_token(worker, assignment->token);
}

static bool share_slots(const struct assignment *a, const struct assignment *b)
{
    return a->slot < b->slot + b->slots && b->slot < a->slot + a->slots;
}

/* While this agent was paused, a delayed answer may have started a worker on slots that were
 * reassigned since. It must end before the new owner starts. */
static bool slots_are_free(const struct agent_core *core, const struct agent_worker *worker)
{
    for (const struct agent_worker *w = core->workers; w; w = w->next) {
        bool unknown = !w->assignment && !w->desired;
        if (w->process &&
            (unknown || (w->assignment && share_slots(w->assignment, worker->assignment))))
            return false;
    }
    return true;
}

/* It could wait for ever: another node may have room. */
static void refuse_held(struct agent_worker *worker, int slot, struct agent_actions *ret)
{
    char why[AGENT_START_ERROR_MAX + 1];
    (void)str_printf(why, sizeof(why),
                     "the memory of the GPU of slot %d is still in use after its last worker ended",
                     slot);
    agent_worker_fail_start(worker, AGENT_START_AGAIN, why, ret);
}

void agent_desired_start(struct agent_core *core, struct agent_actions *ret)
{
    for (struct agent_worker *w = core->workers; w; w = w->next) {
        int held = w->waits ? agent_slots_find(core, w->assignment, AGENT_SLOT_HELD) : -1;
        if (held >= 0)
            refuse_held(w, held, ret);
        if (!w->waits || !slots_are_free(core, w) ||
            agent_slots_find(core, w->assignment, AGENT_SLOT_CLEARING) >= 0)
            continue;
        w->waits = false;
        w->process = true;
        agent_slots_use(core, w->assignment);
        struct agent_action *action = agent_actions_add(ret, AGENT_ACTION_START);
        action->key = w->key;
        action->assignment = assignment_hold(w->assignment);
        agent_worker_remember(w, ret);
    }
}

/* Remembered first: an agent that ends in between does not send it twice. A worker that starts only
 * now has no handler yet, and the signal would end it. */
static void signal_early(struct agent_worker *worker, struct agent_actions *ret)
{
    if (worker->assignment->signal_wall_ms <= worker->memory.signal_wall_ms ||
        !agent_worker_runs(worker))
        return;
    worker->memory.signal_wall_ms = worker->assignment->signal_wall_ms;
    agent_worker_remember(worker, ret);
    if (worker->pid > 0 && worker->state != AGENT_WORKER_STOPPING)
        agent_actions_add(ret, AGENT_ACTION_SIGNAL)->key = worker->key;
}

static void apply_one(struct agent_core *core, struct assignment *assignment,
                      const struct agent_event *event, struct agent_actions *ret)
{
    struct agent_worker *worker = agent_worker_find(core, &assignment->key);
    if (!worker) {
        add_desired(core, assignment, ret);
        return;
    }
    worker->desired = true;
    /* Generations only rise: an answer that arrives late has nothing new. */
    if (worker->assignment && assignment->generation < worker->assignment->generation)
        return;
    if (!worker->assignment) /* an earlier agent met it */
        worker->stacks_wall_ms = assignment->stacks_wall_ms;
    replace_assignment(worker, assignment);
    if (assignment->stop)
        agent_worker_stop(worker, event->now_ms, ret);
    else
        agent_hub_settle(worker, ret);
    signal_early(worker, ret);
    if (assignment->stacks_wall_ms > worker->stacks_wall_ms && agent_worker_runs(worker)) {
        worker->stacks_wall_ms = assignment->stacks_wall_ms;
        agent_actions_add(ret, AGENT_ACTION_STACKS)->key = worker->key;
    }
}

void agent_desired_apply(struct agent_core *core, const struct agent_event *event,
                         struct agent_actions *ret)
{
    for (struct agent_worker *w = core->workers; w; w = w->next)
        w->desired = false;
    for (int i = 0; i < event->desired.count; i++)
        apply_one(core, event->desired.assignments[i], event, ret);
    for (struct agent_worker *w = core->workers, *next; w; w = next) {
        next = w->next;
        if (w->desired)
            continue;
        agent_worker_stop(w, event->now_ms, ret);
        agent_worker_forget_if_done(core, w, ret);
    }
}
