/* A wire of NCCL, for the files that have it: nccl.c opens and closes it, nccl_memory.c enrolls
 * memory with it. */
#ifndef CUDA_NCCL_WIRE_H
#define CUDA_NCCL_WIRE_H

#include <pthread.h>

#include "libworker/cuda/nccl_library.h"
#include "libworker/device/wire_ops.h"

enum {
    NCCL_ENROLLED_MAX = 32,
    NCCL_PAUSE_NS = 20000, /* between two looks at what is in progress */
};

/* Memory that is registered with a communicator. */
struct nccl_enrolled {
    const void *at;
    bool shared;
    ncclWindow_t window; /* of shared memory: NCCL writes it, maybe later than the call */
    void *handle;        /* of other memory */
};

struct device_wire {
    struct nccl_api api;
    struct cuda_device *device;
    struct device_wire *next; /* of the device's open ones */
    ncclComm_t comm;          /* NULL once aborted */
    pthread_mutex_t lock;
    bool aborted;
    struct nccl_enrolled enrolled[NCCL_ENROLLED_MAX];
    int n_enrolled;
};

/* 0, WIRE_PENDING, or the code of a failure. Under the lock. */
int nccl_wire_look(struct device_wire *wire, struct error *err);

/* The lock, once nothing is in progress. Without it: the code of what failed meanwhile. */
int nccl_wire_lock(struct device_wire *wire, struct error *err);
void nccl_wire_unlock(struct device_wire *wire);

/* What NCCL refused, and the code for it. comm may be NULL. */
int nccl_refused(const struct nccl_api *api, ncclResult_t result, ncclComm_t comm, const char *what,
                 struct error *err);

#endif
