/* What the workers of one job on this node see of it: mounts of their own (an empty /tmp and
 * /dev/shm, a /proc that shows processes of their own user only) and System V objects and message
 * queues of their own. The first shim of a job is started in new namespaces; later ones join it, so
 * that ranks of one job share memory by name. They end with the last shim.
 *
 * No namespace of process numbers: a worker would be its process 1, to which signals without a
 * handler do not come, and CUDA's shared memory between ranks needs a common one.
 *
 * Sources: namespaces(7), mount_namespaces(7), proc(5) (hidepid; per mount since Linux 5.8).
 */
#ifndef SUPERVISOR_NAMESPACE_H
#define SUPERVISOR_NAMESPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/supervisor/gpu_access.h"

enum { NAMESPACE_WHY_BYTES = 160 };

struct namespaces { /* which of them this node gives to workers */
    bool mounts, ipc;
    bool tmp, shm, proc, devices;  /* with mounts */
    char why[NAMESPACE_WHY_BYTES]; /* what cannot be had, and why; "" = all of them */
};

/* Tries each in a child process, once, when the agent starts. `data` lies in no folder that would
 * be hidden. Never fails. */
void namespaces_find(const char *data, struct namespaces *ret);

/* The folder of the job's own, "/tmp" or "/dev/shm", that hides what the machine has at `path`;
 * NULL if none does. */
const char *namespaces_hide(const struct namespaces *have, const char *path);

struct namespace_entry { /* of one shim */
    const struct namespaces *have;
    const char *tmp;                /* folder to be seen as /tmp; with have->tmp */
    const struct gpu_nodes *closed; /* GPUs of others; NULL = none */
    int mounts_fd, ipc_fd;          /* of a shim of the same job; -1 = new ones */
};

/* Opens those of a living process; -1 where that fails. The caller closes them. */
void namespace_open(pid_t pid, struct namespace_entry *ret);
void namespace_close(struct namespace_entry *entry);

/* In the mounts of a living process, which are not this process's: cover `closed`, uncover `open`.
 * 0 or an errno. Forks; the mounts of the machine stay as they are. */
int namespace_set_gpus(pid_t pid, const struct gpu_nodes *closed, const struct gpu_nodes *open);

/* For proc_spawn.confine: 0 or an errno. Async-signal-safe. */
int namespace_enter(void *arg); /* its struct namespace_entry */

#endif
