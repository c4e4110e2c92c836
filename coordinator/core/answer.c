#include "coordinator/core/answer.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/str.h"

struct record *step_record(struct step *step, const char *kind, const struct job *job,
                           const char *node, const struct reason *reason)
{
    struct record *record = calloc(1, sizeof(*record));
    insist(record);
    record->wall_ms = step->wall_ms;
    (void)str_copy(record->kind, sizeof(record->kind), kind);
    (void)str_copy(record->job, sizeof(record->job), job ? job->id : "");
    (void)str_copy(record->node, sizeof(record->node), node ? node : "");
    record->generation = job ? job->next_generation - 1 : 0;
    record->world = job ? job->current.world : 0;
    record->reason.rank = -1;
    if (reason)
        record->reason = *reason;
    record->reason.output[0] = 0; /* a worker's output is recorded once, with its end */
    actions_add(step->ret, ACTION_RECORD)->record = record;
    return record;
}

void step_answer_job(struct step *step, const struct job *job, bool repeated)
{
    if (!step->event->request)
        return;
    struct action *action = actions_add(step->ret, ACTION_ANSWER);
    action->request = step->event->request;
    (void)str_copy(action->job, sizeof(action->job), job->id);
    action->repeated = repeated;
}

void step_answer_node(struct step *step, const char *node)
{
    if (!step->event->request)
        return;
    struct action *action = actions_add(step->ret, ACTION_ANSWER);
    action->request = step->event->request;
    (void)str_copy(action->node, sizeof(action->node), node);
}

void step_refuse(struct step *step, const struct error *err)
{
    if (!step->event->request)
        return;
    struct action *action = actions_add(step->ret, ACTION_ANSWER);
    action->request = step->event->request;
    action->error = malloc(sizeof(*action->error));
    insist(action->error);
    *action->error = *err;
}
