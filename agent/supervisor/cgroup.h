/* One cgroup per worker where this machine allows it: a memory limit, the count of OOM kills, and a
 * tree from which no process escapes. Version 2 if the unified hierarchy has the memory controller,
 * else version 1's memory hierarchy, else none; the choice and its reason are recorded. Without a
 * cgroup the limit is not enforced and the tree is followed by parentage.
 *
 * Version 2 allows limits below a cgroup only if no process is in that cgroup itself ("no internal
 * processes"). Workers' cgroups therefore need a parent of their own:
 *
 *   systemd, deploy/systemd        a container              DelegateSubgroup=agent (systemd 254)
 *     muster-workers.service         /  (its namespace)       muster-agent.service
 *     ├ holder   its one process     ├ agent    all there     ├ agent      the agent
 *     ├ shims                        ├ muster.j1.1...         ├ muster.j1.1...
 *     ├ muster.j1.1...               └ muster.j1.2...         └ muster.j1.2...
 *     └ muster.j1.2...
 *
 * docs/adr/0011 explains why the agent's own unit cannot be that parent under systemd before 254.
 *
 * Sources: kernel Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; systemd's
 * docs/CGROUP_DELEGATION.md.
 */
#ifndef SUPERVISOR_CGROUP_H
#define SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/launch.h"
#include "common/env/proc_spawn.h"

enum { CGROUP_PATH_MAX = 512, CGROUP_WHY_BYTES = 256, CGROUP_PROCS_MAX = 4096 };

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

struct cgroup_home { /* the parents of workers' cgroups; plain */
    enum cgroup_kind kind;
    char path[CGROUP_PATH_MAX];         /* their parent; "" = none */
    char pids[CGROUP_PATH_MAX];         /* their parent that limits processes; "" = none */
    char devices[CGROUP_PATH_MAX];      /* their parent that restricts GPUs; "" = none */
    char devices_why[CGROUP_WHY_BYTES]; /* why devices is "" */
    char shims[CGROUP_PATH_MAX];        /* the cgroup of shims; "" = they stay in the agent's */
    char why[CGROUP_WHY_BYTES];         /* why kind is CGROUP_NONE */
};

struct cgroup { /* plain: a name, no descriptors */
    enum cgroup_kind kind;
    char path[CGROUP_PATH_MAX];    /* "" = none */
    char pids[CGROUP_PATH_MAX];    /* of version 1's other hierarchy; "" = none, or `path` */
    char devices[CGROUP_PATH_MAX]; /* of version 1's; "" = none, or `path` */
    char why[CGROUP_WHY_BYTES];    /* why there is none, or no limit */
};

struct cgroup_limits { /* 0 = none */
    uint64_t memory_bytes;
    uint32_t processes;      /* and threads: the limit of a fork bomb */
    struct launch_gpus gpus; /* the only ones it may open; major 0 = any */
};

/* The value of the node's label: "v1", "v2" or "none". */
const char *cgroup_kind_name(enum cgroup_kind kind);

/* Find the parent and prepare it, once, when the agent starts. Processes of the parent itself may
 * be moved to a child. `wish` is "auto", "off", or the path of a cgroup of version 2 that was
 * delegated to Muster, from the hierarchy's root ("/system.slice/muster-workers.service"). Never
 * fails: CGROUP_NONE has a reason. */
void cgroup_home_find(const char *wish, struct cgroup_home *ret);

/* cgroup.procs of home->shims, open for writing; -1 without one. The caller closes it. */
int cgroup_home_shims_fd(const struct cgroup_home *home);

/* Make "muster.<name>" in `home`. The name must be unique on the machine, because all processes in
 * it will be killed. Never fails: CGROUP_NONE has a reason. */
void cgroup_create(const struct cgroup_home *home, const char *name,
                   const struct cgroup_limits *limits, struct cgroup *ret);

/* A cgroup made earlier, by its paths, or by its name as in cgroup_create. CGROUP_NONE if it does
 * not exist; its parts in other hierarchies can still be removed. */
void cgroup_open(const char *path, const char *pids, const char *devices, struct cgroup *ret);
void cgroup_open_named(const struct cgroup_home *home, const char *name, struct cgroup *ret);

/* From now on its processes can open only these GPUs; open files stay open. */
int cgroup_set_gpus(const struct cgroup *cgroup, const struct launch_gpus *gpus, struct error *err);

/* cgroup.procs of all its hierarchies, open for writing; -1 where it does not exist. */
void cgroup_enter_fds(const struct cgroup *cgroup, int ret[PROC_CGROUPS_MAX]);
void cgroup_close_fds(const int fds[PROC_CGROUPS_MAX]);

/* The first `max` processes in it; returns their total number (at most CGROUP_PROCS_MAX). */
int cgroup_list(const struct cgroup *cgroup, pid_t *ret, int max);

/* SIGKILL to all processes now in it; results as cgroup_list. */
int cgroup_kill(const struct cgroup *cgroup, pid_t *ret, int max);

uint64_t cgroup_oom_kills(const struct cgroup *cgroup); /* 0 without one */
uint64_t cgroup_peak_bytes(const struct cgroup *cgroup);
bool cgroup_remove(const struct cgroup *cgroup); /* when empty; false: a part of it remains */

#endif
