/* One cgroup per worker where this machine lets us make one: a memory limit, the count of OOM
 * kills, and a tree nobody escapes from. Version 2 where the unified hierarchy has the memory
 * controller, else version 1's memory hierarchy, else none; which one, and why not, is recorded.
 * Without a cgroup the limit is not enforced and the tree is followed by parentage.
 *
 * Sources: kernel Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
 */
#ifndef SUPERVISOR_CGROUP_H
#define SUPERVISOR_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_PATH_MAX = 512, CGROUP_WHY_BYTES = 256, CGROUP_PROCS_MAX = 4096 };

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

struct cgroup { /* plain: a name, no descriptors */
    enum cgroup_kind kind;
    char path[CGROUP_PATH_MAX]; /* "" = none */
    char why[CGROUP_WHY_BYTES]; /* why there is none, or no limit */
};

/* Make "muster.<name>" below this process's own cgroup; the name must be unique on the machine, for
 * all in it will be killed one day. Never fails: CGROUP_NONE has a reason. */
void cgroup_create(const char *name, uint64_t memory_bytes, struct cgroup *ret);

/* One that was made earlier, by its path; CGROUP_NONE if it is gone. */
void cgroup_open(const char *path, struct cgroup *ret);

/* cgroup.procs, open for writing; -1 without a cgroup. The caller closes it. */
int cgroup_procs_fd(const struct cgroup *cgroup);

/* The first `max` processes in it, and how many there are (at most CGROUP_PROCS_MAX). */
int cgroup_list(const struct cgroup *cgroup, pid_t *ret, int max);

/* SIGKILL to all that is in it now; how many there were. */
int cgroup_kill(const struct cgroup *cgroup);

uint64_t cgroup_oom_kills(const struct cgroup *cgroup); /* 0 without one */
uint64_t cgroup_peak_bytes(const struct cgroup *cgroup);
void cgroup_remove(const struct cgroup *cgroup); /* when empty; else it stays */

#endif
