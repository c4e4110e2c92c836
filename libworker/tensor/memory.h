/* Memory for tensors: zeroed, aligned for vector loads, and in huge pages where it is large and the
 * system grants them (/sys/kernel/mm/transparent_hugepage/enabled is madvise or always). A pass
 * over large arrays meets a page every 4 KiB otherwise, and finding each costs a walk through the
 * page tables, twice so in a virtual machine. The caller owns it; any thread.
 */
#ifndef TENSOR_MEMORY_H
#define TENSOR_MEMORY_H

#include <stddef.h>

enum {
    MEMORY_ALIGN_BYTES = 64,
    MEMORY_LARGE_BYTES = 4 * 1024 * 1024, /* from here on it is a mapping of its own */
};

/* NULL if memory is out; `bytes` 0 is allowed. */
void *memory_new(size_t bytes);

/* `bytes` as they were asked for; NULL is fine. */
void memory_free(void *memory, size_t bytes);

#endif
