/* What the files of the fake NCCL have of each other. */
#ifndef CUDA_FAKE_NCCL_INSIDE_H
#define CUDA_FAKE_NCCL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include <nccl.h>

#include "tests/cuda/fake_nccl.h"
#include "tests/lib/exchange.h"

enum { FAKE_NCCL_ENROLLED_MAX = 64 };

/* Memory that is registered with a communicator; a handle is its address. */
struct fake_nccl_enrolled {
    const char *at; /* NULL: no longer */
    size_t bytes;
    bool is_window;
    int number; /* of the windows, from 1; the same on all ranks */
};

struct ncclComm {
    int magic;
    struct exchange *ex;
    int rank, world;
    _Atomic uint64_t calls;
    bool breaks;
    _Atomic int polls; /* left */
    bool initialized, finalized, failed;
    _Atomic int stopped, running; /* running: collectives that have not ended */
    struct fake_nccl_enrolled enrolled[FAKE_NCCL_ENROLLED_MAX];
    int n_enrolled, n_windows;
    /* A window that not all ranks have registered yet. */
    struct exchange_call pending;
    ncclWindow_t *pending_ret; /* NULL: there is none */
    struct ncclComm *next;     /* of the process's */
};

/* The process's. */
extern struct fake_nccl_streams fake_nccl_streams;
extern struct ncclComm *fake_nccl_comms; /* under the lock */
extern pthread_mutex_t fake_nccl_lock;

_Noreturn void fake_nccl_broken(const char *rule);

/* The beginning and the end of a call of a communicator. */
void fake_nccl_enter(ncclComm_t comm);
void fake_nccl_ready(ncclComm_t comm); /* nothing is in progress, and it is not finalized */
ncclResult_t fake_nccl_leave(ncclResult_t result);

/* True: the window that is in progress waits for a rank. */
bool fake_nccl_window_waits(ncclComm_t comm);

/* Where the bytes are in the communicator's windows; 0: in none. */
uint64_t fake_nccl_place(ncclComm_t comm, const void *at, size_t bytes);

#endif
