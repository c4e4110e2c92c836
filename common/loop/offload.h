/* Threads for work that blocks. Private to common/loop. */
#ifndef LOOP_OFFLOAD_H
#define LOOP_OFFLOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/ring.h"
#include "common/loop/callback.h"
#include "common/loop/mailbox.h"

enum { LOOP_OFFLOAD_MAX = 4096, LOOP_OFFLOAD_THREADS = 2 };

struct offload {
    struct mailbox *box; /* where `done` is posted */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ring queue; /* of struct task, under the lock */
    bool stopping;     /* under the lock */
    pthread_t threads[LOOP_OFFLOAD_THREADS];
    size_t thread_count;
};

int offload_init(struct offload *offload, struct mailbox *box, struct error *err);

/* Waits for running tasks and drops queued ones. Takes zeroed memory. */
void offload_fini(struct offload *offload);

/* False if the queue is full: the caller still owns the work. */
bool offload_push(struct offload *offload, loop_fn work, loop_fn done, void *arg);

#endif
