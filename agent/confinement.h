/* What keeps workers from each other and from the node on this machine: cgroups, namespaces, the
 * users they run as. What cannot be had becomes a sentence of the node (`unenforced`), so that
 * people see it before they rely on it. Once, when the agent starts.
 */
#ifndef AGENT_CONFINEMENT_H
#define AGENT_CONFINEMENT_H

#include "agent/device/inventory.h"
#include "agent/supervisor/cgroup.h"
#include "agent/supervisor/namespace.h"
#include "agent/users.h"
#include "common/base/error.h"

struct confinement { /* plain */
    struct cgroup_home home;
    struct namespaces namespaces; /* of workers of other users */
};

struct confinement_wish {   /* borrowed */
    const char *cgroup;     /* as cgroup_home_find has it */
    const char *namespaces; /* "auto" or "off" */
    const char *dir;        /* DATA */
    const struct users *users;
};

/* Also the inventory's `unenforced` and its label `cgroup`, where an administrator gave none. */
int confinement_find(const struct confinement_wish *wish, struct inventory *inventory,
                     struct confinement *ret, struct error *err);

#endif
