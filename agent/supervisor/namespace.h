/* The namespaces of a job's workers on this node. They have their own mounts: an empty /tmp and
 * /dev/shm, and a /proc that shows only processes of their own user. They also have their own
 * System V objects and message queues. The first shim of a job starts in new namespaces; later ones
 * join it, so that ranks of one job share memory by name. The namespaces end with the last shim.
 *
 * There is no PID namespace. A worker would be its process 1, to which signals without a handler
 * are not delivered. CUDA's shared memory between ranks also needs a common one.
 *
 * Sources: namespaces(7), mount_namespaces(7), proc(5) (hidepid; per mount since Linux 5.8).
 */
#ifndef SUPERVISOR_NAMESPACE_H
#define SUPERVISOR_NAMESPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/supervisor/gpu_access.h"
#include "common/base/error.h"

enum { NAMESPACE_WHY_BYTES = 160 };

struct namespaces { /* the ones that this node provides */
    bool mounts, ipc;
    bool tmp, shm, proc, devices;  /* with mounts */
    char why[NAMESPACE_WHY_BYTES]; /* what is unavailable, and why; "" = nothing */
};

/* Try each in a child process, once, when the agent starts. `data` must not be in a folder that
 * would be hidden. Never fails. */
void namespaces_find(const char *data, struct namespaces *ret);

/* The job's own folder, "/tmp" or "/dev/shm", that hides the machine's `path`; NULL if none does.
 */
const char *namespaces_hide(const struct namespaces *have, const char *path);

struct namespace_entry { /* of one shim */
    const struct namespaces *have;
    const char *tmp;                /* folder that appears as /tmp; with have->tmp */
    const struct gpu_nodes *closed; /* GPUs of other jobs; NULL = none */
    int mounts_fd, ipc_fd;          /* of a shim of the same job; -1 = new ones */
};

/* Open those of a living process; -1 on failure. The caller closes them. */
void namespace_open(pid_t pid, struct namespace_entry *ret);
void namespace_close(struct namespace_entry *entry);

/* Open those of a living process that are not this process's, whatever this node provides now. The
 * entry makes no new ones. The caller closes them. */
int namespace_open_others(pid_t pid, struct namespace_entry *ret, struct error *err);

/* In the mounts of a living process, which differ from this process's: cover `closed`, uncover
 * `open`. 0 or an errno. Forks; the machine's mounts do not change. */
int namespace_set_gpus(pid_t pid, const struct gpu_nodes *closed, const struct gpu_nodes *open);

/* For proc_spawn.confine: 0 or an errno. Async-signal-safe. */
int namespace_enter(void *arg); /* its struct namespace_entry */

#endif
