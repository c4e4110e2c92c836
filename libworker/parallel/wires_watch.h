/* The thread that watches the communicators of wires and stops the wires when one has failed. What
 * it stops stays stopped until the watch ends. Part of wires.h, whose thread calls. */
#ifndef PARALLEL_WIRES_WATCH_H
#define PARALLEL_WIRES_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "libworker/parallel/wires.h"

struct watched {
    struct wk_comm *comm;
    struct wk_comm *whole; /* of which it is the part of a host; NULL: it is no part */
    struct device_wire *wire;
    int64_t left_ms; /* since when a rank has left it; 0: none has */
};

struct wires_watch {
    const struct wire_ops *ops;
    const struct wires_options *options;
    _Atomic int *stop;   /* what launches read: 1 from just before an abort on */
    _Atomic int failure; /* code of the communicator that failed; 0: none */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, ends;
    struct watched list[WIRES_MAX];
    int n;
};

/* Watch one more, from the first one on in a thread. WK_ENOMEM without a thread. */
int watch_add(struct wires_watch *watch, const struct watched *watched, struct error *err);

/* Watch this communicator no more. */
void watch_remove(struct wires_watch *watch, const struct wk_comm *comm);

/* End the thread; then nothing aborts any more. */
void watch_end(struct wires_watch *watch);

/* The code of a communicator that has failed or lost a rank, or 0. Any thread. */
int watch_look(struct wk_comm *comm);

/* Abort, and end the process if that takes longer than the options allow. */
void watch_abort(const struct wires_watch *watch, struct device_wire *const *wires, int n);

#endif
