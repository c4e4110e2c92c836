/* Which GPUs a job's processes may open, enforced in two places that do not depend on each other:
 *
 *   cgroup     version 1: the devices controller, a list of denied numbers
 *              version 2: a BPF program of the cgroup, which the kernel asks at each open
 *   mounts     nodes of other GPUs are covered by themselves, mounted nodev: an open says EACCES
 *
 * The nodes stay where they are: a program sees the /dev that it knows, and a GPU of others as one
 * that its user may not open, for which NVML and CUDA are prepared. A job may open all GPUs that it
 * has on this node, those of its other ranks too: NCCL copies from one to the other. The nodes that
 * all GPUs share (nvidiactl, nvidia-uvm, nvidia-modeset, nvidia-caps) and Infiniband's stay open.
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

/* May such a process open this character device? What the kernel is told, in C. */
bool gpu_access_allows(const struct launch_gpus *gpus, uint32_t major, uint32_t minor);

/* The same as a program of type BPF_PROG_TYPE_CGROUP_DEVICE; how many instructions. */
int gpu_access_program(const struct launch_gpus *gpus, struct bpf_insn ret[GPU_PROGRAM_MAX]);

/* Of a cgroup's folder, version 2: in place of what it had before. Nothing for major 0. At each
 * moment, and after a failure, it allows no more than before or after. */
int gpu_access_attach(const char *cgroup, const struct launch_gpus *gpus, struct error *err);

/* The same of version 1's devices hierarchy. */
int gpu_access_write(const char *cgroup, const struct launch_gpus *gpus, struct error *err);

struct gpu_nodes { /* plain */
    int count;
    char paths[GPU_NODES_MAX][GPU_NODE_BYTES];
};

/* The nodes of single GPUs in /dev that it may open, or that it may not. Async-signal-unsafe. */
void gpu_access_nodes(const struct launch_gpus *gpus, bool allowed, struct gpu_nodes *ret);

/* For mount namespaces: 0 or an errno. Async-signal-safe; nothing happens to what is so already. */
int gpu_nodes_cover(const struct gpu_nodes *nodes);
int gpu_nodes_uncover(const struct gpu_nodes *nodes);
int gpu_node_cover(const char *path);

#endif
