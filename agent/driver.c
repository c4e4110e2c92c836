#include "agent/driver.h"

#include <stdlib.h>

#include "common/base/assert.h"

enum { STOPPED_PATIENCE_MS = 3000 }; /* for the coordinator to hear of the last exits */

static void perform_start(struct agent_driver *driver, const struct agent_action *action)
{
    struct error err = {0};
    if (starter_start(&driver->starter, action->assignment, &err)) {
        log_warn(driver->log, "worker could not be started", log_str("job", action->key.job),
                 log_int("uid", (int64_t)action->key.uid), log_str("reason", err.text));
        refused_add(&driver->refused, &action->key, &err);
        return;
    }
    log_info(driver->log, "worker starts", log_str("job", action->key.job),
             log_int("uid", (int64_t)action->key.uid), log_int("rank", action->assignment->rank),
             log_int("generation", (int64_t)action->assignment->generation));
}

static void perform_stacks(struct agent_driver *driver, const struct worker_key *key)
{
    const struct agent_worker *worker = agent_core_find(driver->core, key);
    if (!report_socket_take_stacks(driver->reports, key) && worker)
        py_spy_look(driver->spy, key, worker->pid);
}

static void on_tick(void *arg)
{
    struct agent_event event = {.kind = AGENT_EVENT_TICK};
    agent_driver_step(arg, &event);
}

void agent_driver_end(struct agent_driver *driver, enum agent_end why)
{
    if (driver->ended)
        return;
    driver->ended = true;
    if (driver->on_end)
        driver->on_end(driver->on_end_arg, why);
}

/* Output is of the rank that its worker has then, which changes where a gang re-forms in place. */
static void note_place(struct agent_driver *driver, const struct worker_key *key)
{
    const struct agent_worker *worker = agent_core_find(driver->core, key);
    const struct assignment *assignment = worker ? worker->assignment : NULL;
    if (!assignment || worker->memory.generation != assignment->generation)
        return;
    struct outbox_place place = {.generation = assignment->generation,
                                 .rank = assignment->rank,
                                 .since_wall_ms = driver->clock.wall_ms(driver->clock.self)};
    outbox_joined(driver->outbox, key, &place);
}

static void perform(struct agent_driver *driver, const struct agent_action *action)
{
    struct launcher *launcher = driver->launcher;
    switch (action->kind) {
    case AGENT_ACTION_REGISTER:
        coordinator_link_register(driver->link);
        break;
    case AGENT_ACTION_REPORT:
        report_soon(&driver->report);
        break;
    case AGENT_ACTION_START:
        perform_start(driver, action);
        break;
    case AGENT_ACTION_TERMINATE:
        launcher->terminate(launcher->self, &action->key);
        break;
    case AGENT_ACTION_SIGNAL:
        launcher->signal_early(launcher->self, &action->key);
        break;
    case AGENT_ACTION_KILL:
        launcher->kill(launcher->self, &action->key);
        break;
    case AGENT_ACTION_STACKS:
        perform_stacks(driver, &action->key);
        break;
    case AGENT_ACTION_REMEMBER:
        launcher->remember(launcher->self, &action->key, &action->memory);
        note_place(driver, &action->key);
        break;
    case AGENT_ACTION_FORGET:
        outbox_forget(driver->outbox, &action->key);
        figures_forget(driver->figures, &action->key);
        report_socket_close(driver->reports, &action->key);
        launcher->forget(launcher->self, &action->key);
        break;
    case AGENT_ACTION_ANSWER:
    case AGENT_ACTION_REFUSE:
        if (report_socket_owns(action->request))
            report_socket_answer(driver->reports, action);
        else
            worker_socket_answer(driver->socket, action);
        break;
    case AGENT_ACTION_READ_GPUS:
        gpu_watch_soon(driver->gpus);
        break;
    case AGENT_ACTION_WAKE_AT:
        loop_timer_set(driver->loop, &driver->tick_timer, action->at_ms, on_tick, driver);
        break;
    case AGENT_ACTION_LEAVE:
        log_warn(driver->log, "another agent speaks for this node now: leaving its workers to it",
                 log_str("node", driver->node));
        agent_driver_end(driver, AGENT_END_FENCED);
        break;
    }
}

static void on_end_timer(void *arg)
{
    agent_driver_end(arg, AGENT_END_STOPPED);
}

/* When all have ended that can be, once the coordinator knows or does not answer in time. */
static void end_if_stopped(struct agent_driver *driver)
{
    if (!driver->stopping || driver->stopped)
        return;
    for (const struct agent_worker *w = agent_core_first(driver->core); w; w = w->next)
        if (w->process && !w->stuck.count)
            return;
    driver->stopped = true;
    bool heard = agent_core_registered(driver->core);
    report_at(&driver->report, loop_now_ms(driver->loop));
    loop_timer_set(driver->loop, &driver->end_timer,
                   loop_now_ms(driver->loop) + (heard ? STOPPED_PATIENCE_MS : 0), on_end_timer,
                   driver);
}

static void step_once(struct agent_driver *driver, struct agent_event *event)
{
    struct agent_actions actions = {0};
    event->now_ms = loop_now_ms(driver->loop);
    agent_step(driver->core, event, &actions);
    for (int i = 0; i < actions.count; i++)
        perform(driver, &actions.items[i]);
    agent_actions_fini(&actions);
}

void agent_driver_step(struct agent_driver *driver, struct agent_event *event)
{
    never(driver->stepping); /* nothing we call may call back from inside */
    driver->stepping = true;
    step_once(driver, event);
    for (struct refused_start *refused; (refused = refused_pop(&driver->refused)); free(refused)) {
        struct agent_event next = {.kind = AGENT_EVENT_START_FAILED,
                                   .key = refused->key,
                                   .start_error = refused->why,
                                   .start_code = refused->code};
        step_once(driver, &next);
    }
    driver->stepping = false;
    report_socket_settle(driver->reports);
    end_if_stopped(driver);
}

static void on_shipped(void *arg, const struct worker_key *key)
{
    struct agent_event event = {.kind = AGENT_EVENT_SHIPPED, .key = *key};
    agent_driver_step(arg, &event);
}

static void on_report_answer(void *arg, bool newest, int code)
{
    struct agent_driver *driver = arg;
    if (code == 0 && driver->stopped && newest)
        loop_timer_set(driver->loop, &driver->end_timer, loop_now_ms(driver->loop), on_end_timer,
                       driver);
}

void agent_driver_init(struct agent_driver *driver)
{
    struct report *report = &driver->report;
    report->node = driver->node;
    report->loop = driver->loop;
    report->log = driver->log;
    report->core = driver->core;
    report->link = driver->link;
    report->outbox = driver->outbox;
    report->figures = driver->figures;
    report->gpus = driver->gpus;
    report->on_shipped = on_shipped;
    report->on_answer = on_report_answer;
    report->arg = driver;
}

void agent_driver_fini(struct agent_driver *driver)
{
    if (driver->loop) {
        loop_timer_cancel(driver->loop, &driver->tick_timer);
        loop_timer_cancel(driver->loop, &driver->end_timer);
    }
    report_fini(&driver->report);
}

void agent_driver_stop(struct agent_driver *driver)
{
    struct agent_event event = {.kind =
                                    driver->stopping ? AGENT_EVENT_KILL_ALL : AGENT_EVENT_STOP_ALL};
    driver->stopping = true;
    agent_driver_step(driver, &event);
}
