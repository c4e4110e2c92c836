/* The environment of a worker (docs/agent.md has the table): pure arithmetic on its assignment.
 *
 * Names come in this order, later ones replace earlier ones: what the agent passes on (PATH, HOME,
 * ...), what the system sets, the `env` of the job. The job may not set what says who the worker is
 * (RANK, MASTER_ADDR, MUSTER_JOB, CUDA_VISIBLE_DEVICES ...): that is refused with the name
 * (common/settings/variable.h has them). MUSTER_JOB_SETTINGS lists the variables of settings that
 * the job has said, so that libworker can tell them from those of the machine.
 *
 * Sources: torch.distributed.run's documented environment; Accelerate's launch utilities;
 * libworker's table of settings (MUSTER_<SETTING>).
 */
#ifndef AGENT_ENVIRONMENT_H
#define AGENT_ENVIRONMENT_H

#include <stdbool.h>

#include "agent/core/assignment.h"
#include "common/base/arena.h"
#include "common/base/error.h"

enum { ENVIRONMENT_NAMES_MAX = 1024 };

struct environment_facts {          /* of this node */
    const char *const *inherited;   /* NULL-terminated "NAME=value"; NULL = none */
    const struct launch_user *user; /* whose HOME, USER, LOGNAME and SHELL they are; NULL = as they
                                       are inherited */
    const char *socket;             /* URL of the worker hub */
    const char *cores;              /* the worker is pinned to; "" = none */
    const char *const *gpus;        /* UUIDs by slot; NULL = slots are no GPUs */
    uint32_t gpus_count;
};

/* NULL-terminated "NAME=value" in byte order, in `arena`. E_INVALID_ARGUMENT for a name of the job
 * that is none, or one it may not set; E_RESOURCE_EXHAUSTED. */
int environment_build(const struct assignment *assignment, const struct environment_facts *facts,
                      struct arena *arena, const char *const **ret, struct error *err);

/* The value in such a list, NULL if absent. */
const char *environment_get(const char *const *envp, const char *name);

#endif
