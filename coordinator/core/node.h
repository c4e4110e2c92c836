/* Events about nodes: registration, reports, closed connections and an administrator's commands. */
#ifndef CORE_NODE_H
#define CORE_NODE_H

#include "coordinator/core/step_state.h"

void node_register(struct step *step);
void node_report(struct step *step);
void node_gone(struct step *step);
void node_command(struct step *step);
void node_restored(struct step *step, struct node *node);

#endif
