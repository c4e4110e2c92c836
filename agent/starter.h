/* Turns an assignment into a worker: whom it runs as, its environment, its cores and GPUs, its
 * memory; then the launcher starts it. Loop thread; everything is borrowed.
 */
#ifndef AGENT_STARTER_H
#define AGENT_STARTER_H

#include "agent/core/assignment.h"
#include "agent/device/cores.h"
#include "agent/device/inventory.h"
#include "agent/supervisor/launcher.h"
#include "agent/supervisor/namespace.h"
#include "agent/users.h"
#include "common/base/error.h"

struct starter {
    const struct inventory *inventory;
    const struct cores *cores;
    const char *const *inherited;        /* NULL-terminated "NAME=value" */
    uint32_t processes;                  /* and threads of a worker at most; 0 = not limited */
    const struct namespaces *namespaces; /* of workers of other users; NULL = none */
    struct users *users;                 /* NULL = workers run as the agent */
    const char *socket;                  /* URL of the worker hub */
    struct launcher *launcher;
};

/* As launcher.start; E_NOT_FOUND or E_UNAVAILABLE for a job whose secrets are not to be
 * had; E_PERMISSION_DENIED for a tenant without a user on this node,
 * E_INVALID_ARGUMENT for a job whose program, folder or checkpoints lie where it has a folder of
 * its own: they would not be found, or be gone with it. */
int starter_start(const struct starter *starter, const struct assignment *a, struct error *err);

#endif
