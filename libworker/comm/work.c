#include "libworker/comm/work.h"

#include <signal.h>
#include <stdlib.h>

#include "libworker/comm/collective.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/membarrier.h"
#include "libworker/comm/state.h"

enum { COMM_QUEUE_MAX = 4096 };

struct wk_work {
    struct request request;
    struct wk_work *next;
    pthread_mutex_t lock; /* its own, so that it outlives the communicator */
    pthread_cond_t ended;
    bool done;
    int code;
};

static struct wk_work *work_new(const struct request *request)
{
    struct wk_work *work = calloc(1, sizeof(*work));
    if (!work)
        return NULL;
    work->request = *request;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->ended, NULL);
    return work;
}

static void work_end(struct wk_work *work, int code)
{
    pthread_mutex_lock(&work->lock);
    work->code = code;
    work->done = true;
    pthread_cond_signal(&work->ended);
    pthread_mutex_unlock(&work->lock);
}

int wk_wait(struct wk_work *work)
{
    if (!work)
        return 0;
    pthread_mutex_lock(&work->lock);
    while (!work->done)
        pthread_cond_wait(&work->ended, &work->lock);
    int code = work->code;
    pthread_mutex_unlock(&work->lock);
    pthread_cond_destroy(&work->ended);
    pthread_mutex_destroy(&work->lock);
    free(work->request.row_space);
    free(work);
    return code;
}

/* The gate: `running` belongs to the thread that runs an operation. `waiting` means that some are
 * queued; it changes under comm->queue.lock and sends blocking calls to the end of the queue.
 *
 * Leaving is a plain store and a load of `waiting`, which may be reordered: an atomic step would
 * delay the call until its post has left the core. A thread that finds the gate closed and is about
 * to sleep therefore has the kernel execute a barrier in the other threads and tries once more. A
 * leave before the barrier is visible then; a leave after it sees `waiting`.
 */
static bool gate_take(struct wk_comm *comm)
{
    bool free = false;
    return atomic_compare_exchange_strong(&comm->queue.running, &free, true);
}

static bool gate_enter(struct wk_comm *comm)
{
    return !atomic_load_explicit(&comm->queue.waiting, memory_order_relaxed) && gate_take(comm);
}

static void gate_leave(struct wk_comm *comm)
{
    atomic_store_explicit(&comm->queue.running, false,
                          comm->fences ? memory_order_seq_cst : memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load(&comm->queue.waiting))
        return;
    pthread_mutex_lock(&comm->queue.lock);
    pthread_cond_broadcast(&comm->queue.changed);
    pthread_mutex_unlock(&comm->queue.lock);
}

static struct wk_work *queue_pop(struct wk_comm *comm)
{
    struct wk_work *work = comm->queue.first;
    comm->queue.first = work->next;
    if (!comm->queue.first) {
        comm->queue.last = NULL;
        atomic_store(&comm->queue.waiting, false);
    }
    comm->queue.count--;
    return work;
}

static bool may_run_next(struct wk_comm *comm)
{
    if (!comm->queue.first)
        return false;
    if (gate_take(comm))
        return true;
    if (!comm->fences)
        membarrier_others();
    return gate_take(comm);
}

static void *progress_run(void *arg)
{
    struct wk_comm *comm = arg;
    pthread_mutex_lock(&comm->queue.lock);
    for (;;) {
        while (!comm->queue.closing && !may_run_next(comm))
            pthread_cond_wait(&comm->queue.changed, &comm->queue.lock);
        if (comm->queue.closing)
            break;
        struct wk_work *work = queue_pop(comm);
        pthread_mutex_unlock(&comm->queue.lock);
        int code = collective_run(comm, &work->request);
        pthread_mutex_lock(&comm->queue.lock);
        atomic_store(&comm->queue.running, false);
        work_end(work, code);
    }
    pthread_mutex_unlock(&comm->queue.lock);
    return NULL;
}

/* The program's signals must not be handled on this thread. */
static int start_thread(struct wk_comm *comm)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&comm->queue.thread, NULL, progress_run, comm);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    comm->queue.has_thread = !rc;
    if (rc)
        return comm_argument_error(comm, WK_ENOMEM, "cannot start the progress thread");
    return 0;
}

/* Requires comm->queue.lock. */
static int queue_push(struct wk_comm *comm, const struct request *request, struct wk_work **ret)
{
    if (comm->queue.count >= COMM_QUEUE_MAX)
        return comm_argument_error(comm, WK_ENOMEM, "%d operations are queued already",
                                   comm->queue.count);
    int rc = comm->queue.has_thread ? 0 : start_thread(comm);
    if (rc)
        return rc;
    struct wk_work *work = work_new(request);
    if (!work)
        return comm_argument_error(comm, WK_ENOMEM, "no memory for another operation");
    if (comm->queue.last)
        comm->queue.last->next = work;
    else
        comm->queue.first = work;
    comm->queue.last = work;
    comm->queue.count++;
    atomic_store(&comm->queue.waiting, true);
    pthread_cond_broadcast(&comm->queue.changed);
    *ret = work;
    return 0;
}

int work_submit(struct wk_comm *comm, struct request *request, struct wk_work **ret_work)
{
    struct wk_work *work = NULL;
    int rc = atomic_load(&comm->failure);
    if (rc) {
        free(request->row_space);
        return rc;
    }
    if (!ret_work && gate_enter(comm)) {
        rc = collective_run(comm, request);
        gate_leave(comm);
    } else {
        pthread_mutex_lock(&comm->queue.lock);
        rc = queue_push(comm, request, &work);
        pthread_mutex_unlock(&comm->queue.lock);
    }
    if (!work)
        free(request->row_space);
    if (!rc && ret_work)
        *ret_work = work;
    else if (work)
        rc = wk_wait(work);
    return rc;
}

void work_stop(struct wk_comm *comm)
{
    pthread_mutex_lock(&comm->queue.lock);
    bool unfinished = atomic_load(&comm->queue.running) || comm->queue.first;
    comm->queue.closing = true;
    pthread_cond_broadcast(&comm->queue.changed);
    pthread_mutex_unlock(&comm->queue.lock);
    if (unfinished)
        wk_comm_abort(comm);
    if (comm->queue.has_thread)
        pthread_join(comm->queue.thread, NULL);
    while (comm->queue.first)
        work_end(queue_pop(comm), atomic_load(&comm->failure));
}
