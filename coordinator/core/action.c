#include "coordinator/core/action.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

void actions_init(struct actions *actions)
{
    memset(actions, 0, sizeof(*actions));
}

static void prune_free(const char *const *prune)
{
    for (const char *const *path = prune; path && *path; path++)
        free((void *)(uintptr_t)*path);
    free((void *)(uintptr_t)prune);
}

void actions_clear(struct actions *actions)
{
    for (int i = 0; i < actions->count; i++) {
        free(actions->items[i].record);
        free(actions->items[i].error);
        prune_free(actions->items[i].prune);
    }
    actions->count = 0;
}

void actions_fini(struct actions *actions)
{
    actions_clear(actions);
    free(actions->items);
    memset(actions, 0, sizeof(*actions));
}

struct action *actions_add(struct actions *actions, enum action_kind kind)
{
    actions->items =
        array_reserve(actions->items, actions->count, &actions->capacity, sizeof(*actions->items));
    struct action *action = &actions->items[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}
