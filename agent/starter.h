/* Turns an assignment into a worker: its user, environment, cores, GPUs and memory; then the
 * launcher starts it. Loop thread; everything is borrowed. */
#ifndef AGENT_STARTER_H
#define AGENT_STARTER_H

#include "agent/core/assignment.h"
#include "agent/device/cores.h"
#include "agent/device/inventory.h"
#include "agent/link/report_socket.h"
#include "agent/supervisor/launcher.h"
#include "agent/supervisor/namespace.h"
#include "agent/users.h"
#include "common/base/error.h"

struct starter {
    const struct inventory *inventory;
    const struct cores *cores;
    const char *const *inherited;        /* NULL-terminated "NAME=value" */
    uint32_t processes;                  /* limit per worker, with threads; 0 = none */
    const struct namespaces *namespaces; /* for workers of other users; NULL = none */
    struct users *users;                 /* NULL = workers run as the agent */
    const char *interface;               /* of the node's address; "" = unknown */
    const char *socket;                  /* URL of the worker hub */
    struct report_socket *reports;
    const struct log *log;
    struct launcher *launcher;
};

/* As launcher.start, and these errors:
 *
 *   E_NOT_FOUND, E_UNAVAILABLE  the job's secrets are not available
 *   E_PERMISSION_DENIED         the tenant has no user on this node
 *   E_INVALID_ARGUMENT          the job's program, folder or checkpoints are below a folder that
 *                               the job's namespace replaces: hidden, or lost with it
 */
int starter_start(const struct starter *starter, const struct assignment *a, struct error *err);

#endif
