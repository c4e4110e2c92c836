#include "common/loop/offload.h"

#include <signal.h>

struct task {
    loop_fn work, done;
    void *arg;
};

static void *offload_thread(void *arg)
{
    struct offload *offload = arg;
    pthread_mutex_lock(&offload->lock);
    while (!offload->stopping) {
        struct task task;
        if (!ring_pop(&offload->queue, &task)) {
            pthread_cond_wait(&offload->changed, &offload->lock);
            continue;
        }
        pthread_mutex_unlock(&offload->lock);
        task.work(task.arg);
        mailbox_post(offload->box, (struct post){task.done, task.arg}, true);
        pthread_mutex_lock(&offload->lock);
    }
    pthread_mutex_unlock(&offload->lock);
    return NULL;
}

int offload_init(struct offload *offload, struct mailbox *box, struct error *err)
{
    sigset_t all, before;
    int rc = 0;
    *offload = (struct offload){.box = box};
    if (ring_init(&offload->queue, LOOP_OFFLOAD_MAX, sizeof(struct task)))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the work queue");
    pthread_mutex_init(&offload->lock, NULL);
    pthread_cond_init(&offload->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop thread's business */
    while (!rc && offload->thread_count < LOOP_OFFLOAD_THREADS) {
        rc =
            pthread_create(&offload->threads[offload->thread_count], NULL, offload_thread, offload);
        if (!rc)
            offload->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        offload_fini(offload);
        return error_errno(err, rc, "cannot start a thread");
    }
    return 0;
}

void offload_fini(struct offload *offload)
{
    if (!offload->queue.items)
        return;
    pthread_mutex_lock(&offload->lock);
    offload->stopping = true;
    pthread_cond_broadcast(&offload->changed);
    pthread_mutex_unlock(&offload->lock);
    for (size_t i = 0; i < offload->thread_count; i++)
        pthread_join(offload->threads[i], NULL);
    pthread_cond_destroy(&offload->changed);
    pthread_mutex_destroy(&offload->lock);
    ring_fini(&offload->queue);
}

bool offload_push(struct offload *offload, loop_fn work, loop_fn done, void *arg)
{
    struct task task = {work, done, arg};
    pthread_mutex_lock(&offload->lock);
    bool taken = !ring_push(&offload->queue, &task);
    pthread_cond_signal(&offload->changed);
    pthread_mutex_unlock(&offload->lock);
    return taken;
}
