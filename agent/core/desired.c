#include <signal.h>
#include <string.h>

#include "agent/core/state.h"
#include "common/base/str.h"

static void replace_assignment(struct agent_worker *worker, struct assignment *assignment)
{
    struct assignment *old = worker->assignment;
    worker->assignment = assignment_hold(assignment);
    assignment_release(old);
}

/* It never ran, and now never will: an exited worker like any other, so that the coordinator needs
 * no second way to hear of it. */
static void end_before_start(struct agent_worker *worker, const char *why,
                             struct agent_actions *actions)
{
    struct worker_exit exit = {.signal = SIGTERM};
    (void)str_copy(exit.text, sizeof(exit.text), why);
    worker->shipped = true;
    agent_worker_ended(worker, &exit, actions);
}

static void start(struct agent_core *core, struct assignment *assignment,
                  struct agent_actions *actions)
{
    if (agent_worker_buried(core, &assignment->key))
        return;
    struct agent_worker *worker = agent_worker_add(core, &assignment->key);
    if (!worker)
        return; /* beyond AGENT_WORKERS_MAX: the coordinator sees that it never joins */
    worker->desired = true;
    replace_assignment(worker, assignment);
    if (assignment->stop) {
        end_before_start(worker, "stopped before it started", actions);
        return;
    }
    if (core->stopping_all) {
        end_before_start(worker, "the agent is leaving", actions);
        return;
    }
    worker->process = true;
    agent_worker_hold_token(worker, assignment->token);
    struct agent_action *action = agent_actions_add(actions, AGENT_ACTION_START);
    action->key = worker->key;
    action->assignment = assignment_hold(assignment);
    agent_worker_remember(worker, actions);
}

static void take_one(struct agent_core *core, struct assignment *assignment,
                     const struct agent_event *event, struct agent_actions *actions)
{
    struct agent_worker *worker = agent_worker_find(core, &assignment->key);
    if (!worker) {
        start(core, assignment, actions);
        return;
    }
    worker->desired = true;
    /* Generations only rise: an answer that was overtaken on the way says nothing new. */
    if (worker->assignment && assignment->generation < worker->assignment->generation)
        return;
    replace_assignment(worker, assignment);
    if (assignment->stop)
        agent_worker_stop(worker, event->now_ms, actions);
    else
        agent_hub_settle(worker, actions);
}

void agent_desired_take(struct agent_core *core, const struct agent_event *event,
                        struct agent_actions *actions)
{
    for (struct agent_worker *w = core->workers; w; w = w->next)
        w->desired = false;
    for (int i = 0; i < event->desired.count; i++)
        take_one(core, event->desired.assignments[i], event, actions);
    for (struct agent_worker *w = core->workers, *next; w; w = next) {
        next = w->next;
        if (w->desired)
            continue;
        agent_worker_stop(w, event->now_ms, actions);
        agent_worker_bury_if_done(core, w, actions);
    }
}
