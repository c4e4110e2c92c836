/* Ends all processes that a worker leaves. In its shim, which is a child subreaper, every process
 * that the worker forked is a descendant, however it hid (setsid, double fork). In the agent, after
 * the shim itself was killed, they are the worker's cgroup and all processes with its token in
 * their environment. A process number may have been reused meanwhile; a token never is. */
#ifndef SUPERVISOR_TREE_H
#define SUPERVISOR_TREE_H

#include <stdbool.h>

#include "agent/core/launch.h"
#include "agent/supervisor/cgroup.h"
#include "common/base/error.h"

/* Make this process the subreaper of all that it will start, and get SIGTERM, SIGUSR1, SIGURG and
 * SIGCHLD from a descriptor. They are blocked from now on, so that none is lost before there is a
 * worker. No process of the tree writes core files. */
int tree_prepare_own(int *ret_signal_fd, struct error *err);

void tree_signal_own(int signal); /* to all descendants of this process, once */

/* SIGKILL to all descendants of this process and to the whole cgroup, once. Returns their number.
 */
int tree_kill_own(const struct cgroup *cgroup);

/* Repeat that every `round_ms`, and reap, until none is left. False if some remain after `most_ms`;
 * reading a large /proc may take much of that time. Blocks. For a process with no other children
 * than the worker's. */
bool tree_end_own(const struct cgroup *cgroup, int most_ms, int round_ms);

/* List the processes of this process's tree and of the cgroup in ret->pids. Zombies are included
 * until they are reaped. */
void tree_list_own(const struct cgroup *cgroup, struct worker_stuck *ret);

/* SIGKILL to the rest of a worker without a shim: its cgroup, and all processes with `mark`
 * ("NAME=value", "" = none) in their environment. Returns their number; ret->pids lists them. */
int tree_kill_orphans(const char *mark, const struct cgroup *cgroup, struct worker_stuck *ret);

#endif
