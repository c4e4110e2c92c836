#include "agent/core/stop.h"

#include <signal.h>

#include "agent/core/hub.h"
#include "common/base/str.h"

static int64_t grace_ms(const struct agent_worker *worker)
{
    if (worker->assignment && worker->assignment->grace_ms > 0)
        return worker->assignment->grace_ms;
    return AGENT_GRACE_DEFAULT_MS;
}

void agent_worker_stop(struct agent_worker *worker, int64_t now_ms, struct agent_actions *ret)
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
        agent_worker_end_unstarted(worker, "stopped before it started", ret);
        return;
    }
    agent_worker_set_state(worker, AGENT_WORKER_STOPPING);
    worker->kill_at_ms = kill_at_ms;
    agent_actions_add(ret, AGENT_ACTION_TERMINATE)->key = worker->key;
    agent_hub_settle(worker, ret);
    agent_actions_add(ret, AGENT_ACTION_REPORT);
}

void agent_worker_set_stuck(struct agent_worker *worker, const struct worker_stuck *stuck,
                            int64_t now_ms, struct agent_actions *ret)
{
    worker->stuck = *stuck;
    if (worker->state != AGENT_WORKER_STOPPING) {
        agent_worker_set_state(worker, AGENT_WORKER_STOPPING);
        worker->kill_at_ms = now_ms + AGENT_KILL_AGAIN_MS;
        agent_hub_settle(worker, ret);
    }
    agent_actions_add(ret, AGENT_ACTION_REPORT);
}

void agent_worker_end(struct agent_worker *worker, const struct worker_exit *exit,
                      struct agent_actions *ret)
{
    agent_worker_set_state(worker, AGENT_WORKER_EXITED);
    worker->process = false;
    worker->stuck.count = 0;
    worker->joining = 0;
    worker->wait = (struct worker_wait){0};
    worker->exit = *exit;
    agent_hub_close(worker, ret);
    agent_actions_add(ret, AGENT_ACTION_REPORT);
}

void agent_worker_fail_start(struct agent_worker *worker, int code, const char *why,
                             struct agent_actions *ret)
{
    struct worker_exit exit = {.code = code};
    (void)str_copy(exit.text, sizeof(exit.text), why);
    (void)str_copy(worker->start_error, sizeof(worker->start_error), why);
    worker->shipped = true;
    worker->waits = false;
    agent_worker_end(worker, &exit, ret);
}

void agent_worker_end_unstarted(struct agent_worker *worker, const char *why,
                                struct agent_actions *ret)
{
    struct worker_exit exit = {.signal = SIGTERM};
    (void)str_copy(exit.text, sizeof(exit.text), why);
    worker->shipped = true;
    worker->waits = false;
    agent_worker_end(worker, &exit, ret);
}
