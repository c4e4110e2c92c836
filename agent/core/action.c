#include "agent/core/action.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

void agent_actions_clear(struct agent_actions *actions)
{
    for (int i = 0; i < actions->count; i++) {
        assignment_release(actions->items[i].assignment);
        free(actions->items[i].error);
    }
    actions->count = 0;
}

void agent_actions_fini(struct agent_actions *actions)
{
    agent_actions_clear(actions);
    free(actions->items);
    *actions = (struct agent_actions){0};
}

struct agent_action *agent_actions_add(struct agent_actions *actions, enum agent_action_kind kind)
{
    actions->items =
        array_reserve(actions->items, actions->count, &actions->capacity, sizeof(*actions->items));
    struct agent_action *action = &actions->items[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}
