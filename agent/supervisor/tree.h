/* Ends everything a worker has left behind. In its shim, a child subreaper: whatever the worker
 * forked is a descendant of the shim, however it hid (setsid, double fork). In the agent, when the
 * shim itself was killed: the worker's cgroup, and what carries its token in the environment (a
 * process number may be another one's by then, a token never is).
 */
#ifndef SUPERVISOR_TREE_H
#define SUPERVISOR_TREE_H

#include <stdbool.h>

#include "agent/core/launch.h"
#include "agent/supervisor/cgroup.h"

/* SIGKILL to all descendants of this process and all of the cgroup, once. How many there were. */
int tree_kill_own(const struct cgroup *cgroup);

/* Again and again, `round_ms` apart, reaping, until none is left; false if some stayed though
 * `most_ms` have passed, of which looking through a large /proc may take a good part. Blocks. For a
 * process whose only children are the worker's. */
bool tree_end_own(const struct cgroup *cgroup, int most_ms, int round_ms);

/* Name the processes of this process's tree and of the cgroup in ret->pids. Zombies are among them
 * until they are reaped. */
void tree_list_own(const struct cgroup *cgroup, struct worker_stuck *ret);

/* SIGKILL to what is left of a worker whose shim is gone: its cgroup, and all processes with `mark`
 * ("NAME=value", "" = none) in their environment. How many there were; ret->pids names them. */
int tree_kill_orphans(const char *mark, const struct cgroup *cgroup, struct worker_stuck *ret);

#endif
