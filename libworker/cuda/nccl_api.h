/* NCCL's library: the calls that wires use (nccl.h here). It is "libnccl.so.2" of the loader's
 * path, or what MUSTER_NCCL names. What has been opened stays open, since its threads outlive
 * communicators. When: nccl_library.h. Any thread. Source: NVIDIA's NCCL user guide, 2.28.
 */
#ifndef CUDA_NCCL_API_H
#define CUDA_NCCL_API_H

#include <nccl.h>

#include "common/base/error.h"

#define NCCL_CALLS(X)                                                                              \
    X(GetVersion)                                                                                  \
    X(GetUniqueId)                                                                                 \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(CommRegister)                                                                                \
    X(CommDeregister)                                                                              \
    X(CommWindowRegister)                                                                          \
    X(CommWindowDeregister)                                                                        \
    X(MemAlloc)                                                                                    \
    X(MemFree)                                                                                     \
    X(AllReduce)                                                                                   \
    X(ReduceScatter)                                                                               \
    X(AllGather)                                                                                   \
    X(AlltoAll)                                                                                    \
    X(Broadcast)

struct nccl_api {
#define X(name) __typeof__(nccl##name) *name;
    NCCL_CALLS(X)
#undef X
    int version; /* 22809 is 2.28.9 */
};

/* Set the variables that wires need, unless the user has (docs/nccl.md). While the process has few
 * threads: others may read the environment. */
void nccl_api_prepare(void);

/* What to open, by the environment: text of it, or a constant. */
const char *nccl_api_name(void);

/* Open it, which may take long. WK_EUNAVAILABLE: there is none, or it is older than 2.28. */
int nccl_api_open(const char *name, struct nccl_api *ret, struct error *err);

#endif
