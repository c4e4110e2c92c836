/* The facts about the machine in the agent's registration. */
#ifndef AGENT_REGISTRATION_H
#define AGENT_REGISTRATION_H

#include "agent/device/inventory.h"
#include "common/base/arena.h"
#include "proto/node.pb-c.h"

/* Slots, cpus, memory, labels, GPUs; texts point into the inventory. E_RESOURCE_EXHAUSTED if the
 * arena is full. */
int registration_fill(const struct inventory *inventory, struct arena *arena,
                      Muster__RegisterNodeRequest *ret);

#endif
