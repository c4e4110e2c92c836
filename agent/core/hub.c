#include "agent/core/hub.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"

void agent_hub_refuse(uint64_t request, int code, const char *why, struct agent_actions *ret)
{
    if (!request)
        return;
    struct agent_action *action = agent_actions_add(ret, AGENT_ACTION_REFUSE);
    action->request = request;
    action->error = calloc(1, sizeof(*action->error));
    insist(action->error);
    error_set(action->error, code, "%s", why);
}

static struct agent_action *answer_call(const struct agent_worker *worker, uint64_t request,
                                        enum agent_answer_kind kind, struct agent_actions *ret)
{
    struct agent_action *action = agent_actions_add(ret, AGENT_ACTION_ANSWER);
    action->key = worker->key;
    action->request = request;
    action->answer.kind = kind;
    return action;
}

static void park_call(struct agent_parked *place, const struct agent_event *event,
                      uint64_t generation, struct agent_actions *ret)
{
    agent_hub_refuse(place->request, E_ABORTED, "asked again in the meantime", ret);
    *place = (struct agent_parked){
        .request = event->request, .generation = generation, .deadline_ms = event->deadline_ms};
}

static uint64_t wanted_generation(const struct agent_worker *worker)
{
    return worker->assignment ? worker->assignment->generation : 0;
}

void agent_hub_hello(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *ret)
{
    if (!worker->assignment) {
        agent_hub_refuse(event->request, E_UNAVAILABLE,
                         "this agent has had no answer from the coordinator yet", ret);
        return;
    }
    if (!worker->memory.aware) {
        worker->memory.aware = true;
        agent_worker_remember(worker, ret);
        agent_actions_add(ret, AGENT_ACTION_REPORT);
    }
    struct agent_action *action = answer_call(worker, event->request, AGENT_ANSWER_HELLO, ret);
    action->answer.generation = worker->assignment->generation;
    action->assignment = assignment_hold(worker->assignment);
}

void agent_hub_join(struct agent_worker *worker, const struct agent_event *event,
                    struct agent_actions *ret)
{
    uint64_t generation = event->join.generation;
    if (worker->assignment && generation > wanted_generation(worker)) {
        agent_hub_refuse(event->request, E_FAILED_PRECONDITION,
                         "no such generation was announced to this worker", ret);
        return;
    }
    bool over = generation < wanted_generation(worker);
    bool news = worker->joining != generation || strcmp(worker->endpoint, event->join.endpoint);
    park_call(&worker->join, event, generation, ret);
    if (!over && generation > worker->memory.generation && news) {
        worker->joining = generation;
        if (event->join.step > worker->memory.step)
            worker->memory.step = event->join.step;
        (void)str_copy(worker->endpoint, sizeof(worker->endpoint), event->join.endpoint);
        agent_actions_add(ret, AGENT_ACTION_REPORT);
    }
    agent_hub_settle(worker, ret);
}

void agent_hub_watch(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *ret)
{
    park_call(&worker->watch, event, event->watch.generation, ret);
    agent_hub_settle(worker, ret);
}

void agent_hub_progress(struct agent_worker *worker, const struct agent_event *event,
                        struct agent_actions *ret)
{
    if (event->progress.generation >= worker->memory.generation) {
        worker->memory.step = event->progress.step;
        worker->memory.total_steps = event->progress.total_steps;
        worker->wait = event->progress.wait ? *event->progress.wait : (struct worker_wait){0};
    }
    worker->busy = event->progress.busy;
    if (event->progress.reports && !worker->reports) {
        worker->reports = true;
        agent_actions_add(ret, AGENT_ACTION_REPORT);
    }
    if (event->progress.dropped)
        worker->reports_dropped = event->progress.dropped;
    answer_call(worker, event->request, AGENT_ANSWER_PROGRESS, ret);
}

static bool lost_rank_add(struct agent_worker *worker, uint32_t rank)
{
    int at = 0;
    while (at < worker->lost_ranks_count && worker->lost_ranks[at] < rank)
        at++;
    if (at < worker->lost_ranks_count && worker->lost_ranks[at] == rank)
        return false;
    if (worker->lost_ranks_count == AGENT_LOST_RANKS_MAX)
        return false;
    memmove(&worker->lost_ranks[at + 1], &worker->lost_ranks[at],
            sizeof(worker->lost_ranks[0]) * (size_t)(worker->lost_ranks_count - at));
    worker->lost_ranks[at] = rank;
    worker->lost_ranks_count++;
    return true;
}

void agent_hub_lost_peers(struct agent_worker *worker, const struct agent_event *event,
                          struct agent_actions *ret)
{
    uint64_t generation = event->lost_peers.generation;
    bool news = false;
    if (generation >= worker->memory.generation && generation > worker->broken) {
        worker->broken = generation;
        worker->lost_ranks_count = 0;
        news = true;
    }
    if (generation > 0 && generation == worker->broken) /* 0 is no generation */
        for (int i = 0; i < event->lost_peers.count; i++)
            news = lost_rank_add(worker, event->lost_peers.ranks[i]) || news;
    if (news)
        agent_actions_add(ret, AGENT_ACTION_REPORT);
    answer_call(worker, event->request, AGENT_ANSWER_LOST_PEERS, ret);
}

static void set_joined(struct agent_worker *worker, struct agent_actions *ret)
{
    const struct assignment *assignment = worker->assignment;
    if (worker->memory.generation == assignment->generation)
        return; /* a repeat: the answer was lost on the way */
    agent_worker_set_state(worker, AGENT_WORKER_JOINED);
    worker->memory.generation = assignment->generation;
    worker->joining = 0;
    worker->lost_ranks_count = 0;
    worker->broken = 0;
    worker->wait = (struct worker_wait){0};
    agent_worker_hold_token(worker, assignment->token);
    agent_worker_remember(worker, ret);
    agent_actions_add(ret, AGENT_ACTION_REPORT);
}

static void settle_join(struct agent_worker *worker, struct agent_actions *ret)
{
    struct assignment *assignment = worker->assignment;
    bool stop = worker->state == AGENT_WORKER_STOPPING;
    bool superseded = worker->join.generation < assignment->generation;
    /* A worker that lost peers in this generation cannot join it again: it waits for the next. */
    bool ready = assignment->members_count > 0 && worker->broken != assignment->generation;
    if (!stop && !superseded && !ready)
        return;
    if (!stop && !superseded)
        set_joined(worker, ret);
    struct agent_action *action = answer_call(worker, worker->join.request, AGENT_ANSWER_JOIN, ret);
    worker->join.request = 0;
    action->answer.stop = stop;
    action->answer.generation = assignment->generation;
    if (!stop && !superseded) {
        action->answer.ready = true;
        action->assignment = assignment_hold(assignment);
    }
}

static void settle_watch(struct agent_worker *worker, struct agent_actions *ret)
{
    bool stop = worker->state == AGENT_WORKER_STOPPING;
    if (!stop && wanted_generation(worker) <= worker->watch.generation)
        return;
    struct agent_action *action =
        answer_call(worker, worker->watch.request, AGENT_ANSWER_WATCH, ret);
    worker->watch.request = 0;
    action->answer.stop = stop;
    action->answer.generation = wanted_generation(worker);
    action->answer.grace_ms = AGENT_GRACE_DEFAULT_MS;
    if (worker->assignment && worker->assignment->grace_ms > 0)
        action->answer.grace_ms = worker->assignment->grace_ms;
    action->answer.leave_ms = worker->assignment ? worker->assignment->leave_ms : 0;
    if (stop && worker->assignment)
        action->assignment = assignment_hold(worker->assignment);
}

void agent_hub_settle(struct agent_worker *worker, struct agent_actions *ret)
{
    if (worker->join.request && worker->assignment)
        settle_join(worker, ret);
    if (worker->watch.request)
        settle_watch(worker, ret);
}

void agent_hub_expire(struct agent_worker *worker, int64_t now_ms, struct agent_actions *ret)
{
    if (worker->join.request && worker->join.deadline_ms - AGENT_ANSWER_MARGIN_MS <= now_ms) {
        struct agent_action *action =
            answer_call(worker, worker->join.request, AGENT_ANSWER_JOIN, ret);
        action->answer.generation = worker->join.generation;
        worker->join.request = 0;
    }
    if (worker->watch.request && worker->watch.deadline_ms - AGENT_ANSWER_MARGIN_MS <= now_ms) {
        struct agent_action *action =
            answer_call(worker, worker->watch.request, AGENT_ANSWER_WATCH, ret);
        action->answer.generation = worker->watch.generation;
        worker->watch.request = 0;
    }
}

void agent_hub_close(struct agent_worker *worker, struct agent_actions *ret)
{
    agent_hub_refuse(worker->join.request, E_CANCELLED, "the worker has ended", ret);
    agent_hub_refuse(worker->watch.request, E_CANCELLED, "the worker has ended", ret);
    worker->join = worker->watch = (struct agent_parked){0};
}
