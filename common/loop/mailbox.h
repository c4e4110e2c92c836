/* Calls from any thread, waiting for the loop thread. Bounded: a full mailbox makes other threads
 * wait. Private to common/loop.
 */
#ifndef LOOP_MAILBOX_H
#define LOOP_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/loop/callback.h"

enum { LOOP_MAILBOX_MAX = 1 << 16 }; /* posts */

struct post {
    loop_fn fn;
    void *arg;
};

struct posts {
    struct post *items;
    int count, capacity;
};

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct posts arrived; /* under the lock */
    struct posts running; /* the owner's, swapped with `arrived` */
    bool closed;          /* under the lock: no posts are accepted any more */
    int wake_fd;          /* eventfd that wakes the owner; -1 if it never waits */
};

void mailbox_init(struct mailbox *box, int wake_fd);
void mailbox_fini(struct mailbox *box);

/* `may_wait` false never blocks, full or not: for the owner's own thread. Aborts if memory is out.
 */
void mailbox_post(struct mailbox *box, struct post post, bool may_wait);

/* Refuse further posts and release the threads that wait for space. */
void mailbox_close(struct mailbox *box);

bool mailbox_empty(struct mailbox *box);

/* Run the posts that had arrived at the call, in order; returns their number. Owner only. */
size_t mailbox_run(struct mailbox *box);

#endif
