/* The GPUs that a job's processes may open, enforced in two independent places:
 *
 *   cgroup     version 1: the devices controller, a list of denied numbers
 *              version 2: a BPF program of the cgroup, which the kernel asks at each open
 *   mounts     device files of other GPUs are covered by themselves, mounted nodev: EACCES at open
 *
 * The device files stay in place: a program sees the usual /dev, and another job's GPU looks like
 * one that its user may not open, which NVML and CUDA handle. A job may open all its GPUs on this
 * node, also those of its other ranks, because NCCL copies between them. Files that all GPUs share
 * (nvidiactl, nvidia-uvm, nvidia-modeset, nvidia-caps) and Infiniband's stay open.
 *
 * Sources: kernel Documentation/admin-guide/cgroup-v1/devices.rst, cgroup-v2.rst ("Device
 * controller"), devices.txt (major 195); bpf(2).
 */
#ifndef SUPERVISOR_GPU_ACCESS_H
#define SUPERVISOR_GPU_ACCESS_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/core/launch.h"
#include "common/base/error.h"

enum {
    GPU_SHARED_FIRST = 254, /* of the driver's minors: 254 is nvidia-modeset, 255 nvidiactl */
    GPU_PROGRAM_MAX = 16 + AGENT_GPUS_MAX, /* instructions */
    GPU_NODES_MAX = 32,
    GPU_NODE_BYTES = 24,
};

/* True if such a process may open this character device: the rule given to the kernel, in C. */
bool gpu_access_allows(const struct launch_gpus *gpus, uint32_t major, uint32_t minor);

/* The same rule as a program of type BPF_PROG_TYPE_CGROUP_DEVICE; returns the number of
 * instructions. */
int gpu_access_program(const struct launch_gpus *gpus, struct bpf_insn ret[GPU_PROGRAM_MAX]);

/* Attach it to a cgroup's folder, version 2, replacing an earlier one. Does nothing for major 0. At
 * each moment, and after a failure, it allows no more than the old or the new rule. */
int gpu_access_attach(const char *cgroup, const struct launch_gpus *gpus, struct error *err);

/* The same for version 1's devices hierarchy. */
int gpu_access_write(const char *cgroup, const struct launch_gpus *gpus, struct error *err);

struct gpu_nodes { /* plain */
    int count;
    char paths[GPU_NODES_MAX][GPU_NODE_BYTES];
};

/* The device files of single GPUs in /dev that it may open, or may not open. Async-signal-unsafe.
 */
void gpu_access_nodes(const struct launch_gpus *gpus, bool allowed, struct gpu_nodes *ret);

/* For mount namespaces: 0 or an errno. Async-signal-safe. A repeated call changes nothing. */
int gpu_nodes_cover(const struct gpu_nodes *nodes);
int gpu_nodes_uncover(const struct gpu_nodes *nodes);
int gpu_node_cover(const char *path);

#endif
