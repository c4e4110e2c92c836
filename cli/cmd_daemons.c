/* muster coordinator, agent, shim: the long-running roles, which parse their own options */
#include "agent/command.h"
#include "agent/supervisor/shim.h"
#include "cli/verb.h"
#include "coordinator/daemon/command.h"

static const struct args_option no_options[] = {{0}};
static const struct args_command coordinator_command = {
    .program = "muster coordinator",
    .summary = "keep jobs and decide where they run (one per cluster)",
    .options = no_options,
};
static const struct args_command agent_command = {
    .program = "muster agent",
    .summary = "run workers on this machine (one per node)",
    .options = no_options,
};
static const struct args_command shim_command = {
    .program = "muster shim",
    .summary = "watch one worker; started by the agent",
    .options = no_options,
};

const struct verb verb_coordinator = {
    .name = "coordinator", .command = &coordinator_command, .main = coordinator_main};
const struct verb verb_agent = {.name = "agent", .command = &agent_command, .main = agent_main};
const struct verb verb_shim = {.name = "shim", .command = &shim_command, .main = shim_main};
