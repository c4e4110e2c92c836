/* The environment of a worker (docs/agent.md has the table): pure arithmetic on its assignment.
 *
 * Names are set in this order, later ones replace earlier ones: the agent's own variables that are
 * inherited (PATH, HOME, ...), the system's, the `env` of the job. The job may not set the worker's
 * identity (RANK, MASTER_ADDR, MUSTER_JOB, CUDA_VISIBLE_DEVICES ...): that is refused with the name
 * (list in common/settings/variable.h). MUSTER_JOB_SETTINGS lists the variables of settings from
 * the job, so that libworker can distinguish them from the machine's.
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

struct environment_facts {          /* about this node */
    const char *const *inherited;   /* NULL-terminated "NAME=value"; NULL = none */
    const struct launch_user *user; /* source of HOME, USER, LOGNAME and SHELL; NULL = inherited
                                     * ones */
    const char *socket;             /* URL of the worker hub */
    const char *report_socket;      /* path of the worker's own; "" = none */
    const char *interface;          /* of the node's address; NULL, "" = unknown */
    const char *cores;              /* for pinning the worker; "" = none */
    const char *const *gpus;        /* UUIDs by slot; NULL = slots are not GPUs */
    uint32_t gpus_count;
};

/* NULL-terminated "NAME=value" in byte order, in `arena`. E_INVALID_ARGUMENT for an invalid name in
 * the job, or one it may not set; E_RESOURCE_EXHAUSTED. */
int environment_build(const struct assignment *assignment, const struct environment_facts *facts,
                      struct arena *arena, const char *const **ret, struct error *err);

/* The value in such a list, NULL if absent. */
const char *environment_get(const char *const *envp, const char *name);

#endif
