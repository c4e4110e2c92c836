/* Memory that this process may still use before the kernel kills it. Limits are those of its
 * control group and of the groups above it: memory.max of version 2, memory.limit_in_bytes of
 * version 1. What the machine has left (MemAvailable) is one, too. Cached files count as
 * free, because the kernel can drop them. Reads files; any thread. Source: Linux,
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and filesystems/proc.rst. */
#ifndef TENSOR_MEMORY_LIMIT_H
#define TENSOR_MEMORY_LIMIT_H

#include <stdint.h>

#define MEMORY_UNLIMITED INT64_MAX

enum { MEMORY_GROUP_MAX = 1024 };

struct memory_limit {
    int64_t own; /* bytes left in its own group; MEMORY_UNLIMITED: no limit, or none that is seen */
    int64_t above; /* the least of those above and the machine's, which other processes share */
    char group[MEMORY_GROUP_MAX]; /* folder of its own, "" for none */
};

/* `root` precedes /proc and /sys: "" on a machine, a folder in tests. */
void memory_limit_read(const char *root, struct memory_limit *ret);

/* Bytes in use of the kind that RLIMIT_DATA limits; -1 if unknown. */
int64_t memory_data_bytes(const char *root);

#endif
