#include "common/loop/mailbox.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/assert.h"

void mailbox_init(struct mailbox *box, int wake_fd)
{
    *box = (struct mailbox){.wake_fd = wake_fd};
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->room, NULL);
}

void mailbox_fini(struct mailbox *box)
{
    free(box->arrived.items);
    free(box->running.items);
    pthread_cond_destroy(&box->room);
    pthread_mutex_destroy(&box->lock);
}

static void posts_append(struct posts *posts, struct post post)
{
    posts->items = array_reserve(posts->items, posts->count, &posts->capacity, sizeof(post));
    posts->items[posts->count++] = post;
}

static void wake_owner(const struct mailbox *box)
{
    uint64_t one = 1;
    /* The counter cannot overflow: it is written once per empty mailbox. */
    if (box->wake_fd >= 0)
        insist(write(box->wake_fd, &one, sizeof(one)) == sizeof(one));
}

void mailbox_post(struct mailbox *box, struct post post, bool may_wait)
{
    pthread_mutex_lock(&box->lock);
    while (may_wait && !box->closed && box->arrived.count >= LOOP_MAILBOX_MAX)
        pthread_cond_wait(&box->room, &box->lock);
    if (!box->closed) {
        posts_append(&box->arrived, post);
        if (box->arrived.count == 1)
            wake_owner(box);
    }
    pthread_mutex_unlock(&box->lock);
}

void mailbox_close(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->room);
    pthread_mutex_unlock(&box->lock);
}

bool mailbox_empty(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    bool empty = box->arrived.count == 0;
    pthread_mutex_unlock(&box->lock);
    return empty;
}

size_t mailbox_run(struct mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    struct posts batch = box->arrived;
    box->arrived = box->running;
    if (batch.count >= LOOP_MAILBOX_MAX)
        pthread_cond_broadcast(&box->room);
    pthread_mutex_unlock(&box->lock);

    for (int i = 0; i < batch.count; i++)
        batch.items[i].fn(batch.items[i].arg);
    size_t count = (size_t)batch.count;
    batch.count = 0;
    box->running = batch;
    return count;
}
