/* How much memory this process may still take before the kernel kills for it: the limits of its
 * control group and of those above it, in version 2 of the hierarchy (memory.max) and version 1
 * (memory.limit_in_bytes). What the kernel can drop for others, cached files, counts as free. Reads
 * files; any thread. Source: Linux, Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst.
 */
#ifndef TENSOR_MEMORY_LIMIT_H
#define TENSOR_MEMORY_LIMIT_H

#include <stdint.h>

#define MEMORY_UNLIMITED INT64_MAX

enum { MEMORY_GROUP_MAX = 1024 };

struct memory_limit {
    int64_t own; /* bytes left in its own group; MEMORY_UNLIMITED: no limit, or none that is seen */
    int64_t above; /* the least of those above, which other processes of the machine share */
    char group[MEMORY_GROUP_MAX]; /* folder of its own, "" for none */
};

/* `root` stands before /proc and /sys: "" on a machine, a folder in tests. */
void memory_limit_read(const char *root, struct memory_limit *ret);

/* Bytes that it has of the kind that RLIMIT_DATA limits; -1 if nothing tells. */
int64_t memory_data_bytes(const char *root);

#endif
