/* Isolates workers from each other and from the node: cgroups, namespaces, Unix users. What this
 * machine cannot provide becomes a sentence of the node (`unenforced`), so that people see it
 * before they rely on it. Called once, when the agent starts. */
#ifndef AGENT_CONFINEMENT_H
#define AGENT_CONFINEMENT_H

#include "agent/device/inventory.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/namespace.h"
#include "agent/users.h"
#include "common/base/error.h"

struct confinement { /* plain */
    struct cgroup_home home;
    struct namespaces namespaces; /* for workers of other users */
};

struct confinement_wish {   /* borrowed */
    const char *cgroup;     /* as for cgroup_home_find */
    const char *namespaces; /* "auto" or "off" */
    const char *dir;        /* DATA */
    const struct users *users;
};

/* Also sets the inventory's `unenforced` and, unless an administrator gave one, its label `cgroup`.
 */
int confinement_find(const struct confinement_wish *wish, struct inventory *inventory,
                     struct confinement *ret, struct error *err);

#endif
