/* Compares the desired workers with the running ones. For the core only. */
#ifndef AGENT_DESIRED_H
#define AGENT_DESIRED_H

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/state.h"

void agent_desired_apply(struct agent_core *core, const struct agent_event *event,
                         struct agent_actions *ret);
/* Start workers that wait for slots which have become free. */
void agent_desired_start(struct agent_core *core, struct agent_actions *ret);

#endif
