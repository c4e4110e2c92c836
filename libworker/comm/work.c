/* Runs requests. A blocking call runs in the caller's thread when nothing is queued before it,
 * which saves a small operation two thread switches. Other requests use the queue. */
#include <linux/membarrier.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/board.h"
#include "libworker/comm/comm_internal.h"

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

int comm_argument_error(struct wk_comm *comm, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&comm->fail_lock);
    vsnprintf(comm->argument_text, sizeof(comm->argument_text), fmt, args);
    pthread_mutex_unlock(&comm->fail_lock);
    va_end(args);
    return code;
}

int comm_missing(void)
{
    struct error err = {0};
    (void)error_set(&err, WK_EINVAL,
                    "NULL instead of a communicator: wk_communicator returns NULL while a "
                    "generation is broken, up to the next wk_next");
    return error_keep(&err);
}

/* The gate: `running` belongs to the thread that runs an operation. `waiting` means that some are
 * queued; it changes under comm->lock and sends blocking calls to the end of the queue.
 *
 * Leaving is a plain store and a load of `waiting`, which may be reordered: an atomic step would
 * delay the call until its post has left the core. A thread that finds the gate taken and wants to
 * sleep therefore has the kernel execute a barrier in the other threads and tries once more. A
 * leave before the barrier is visible then; a leave after it sees `waiting`.
 */
static bool gate_take(struct wk_comm *comm)
{
    bool free = false;
    return atomic_compare_exchange_strong(&comm->running, &free, true);
}

static bool gate_enter(struct wk_comm *comm)
{
    return !atomic_load_explicit(&comm->waiting, memory_order_relaxed) && gate_take(comm);
}

static void gate_leave(struct wk_comm *comm)
{
    atomic_store_explicit(&comm->running, false,
                          comm->fences ? memory_order_seq_cst : memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load(&comm->waiting))
        return;
    pthread_mutex_lock(&comm->lock);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

static struct wk_work *pop(struct wk_comm *comm)
{
    struct wk_work *work = comm->first;
    comm->first = work->next;
    if (!comm->first) {
        comm->last = NULL;
        atomic_store(&comm->waiting, false);
    }
    comm->queued--;
    return work;
}

static bool may_run_next(struct wk_comm *comm)
{
    if (!comm->first)
        return false;
    if (gate_take(comm))
        return true;
    if (!comm->fences)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    return gate_take(comm);
}

static void *progress(void *arg)
{
    struct wk_comm *comm = arg;
    pthread_mutex_lock(&comm->lock);
    for (;;) {
        while (!comm->closing && !may_run_next(comm))
            pthread_cond_wait(&comm->changed, &comm->lock);
        if (comm->closing)
            break;
        struct wk_work *work = pop(comm);
        pthread_mutex_unlock(&comm->lock);
        int code = collective_run(comm, &work->request);
        pthread_mutex_lock(&comm->lock);
        atomic_store(&comm->running, false);
        work_end(work, code);
    }
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

/* The program's signals must not be handled on this thread. */
static int start_thread(struct wk_comm *comm)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&comm->thread, NULL, progress, comm);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    comm->has_thread = rc == 0;
    return rc == 0 ? 0 : comm_argument_error(comm, WK_ENOMEM, "cannot start the progress thread");
}

/* Requires comm->lock. */
static int enqueue(struct wk_comm *comm, const struct request *request, struct wk_work **ret)
{
    if (comm->queued >= COMM_QUEUE_MAX)
        return comm_argument_error(comm, WK_ENOMEM, "%d operations are queued already",
                                   comm->queued);
    int rc = comm->has_thread ? 0 : start_thread(comm);
    if (rc != 0)
        return rc;
    struct wk_work *work = work_new(request);
    if (!work)
        return comm_argument_error(comm, WK_ENOMEM, "no memory for another operation");
    if (comm->last)
        comm->last->next = work;
    else
        comm->first = work;
    comm->last = work;
    comm->queued++;
    atomic_store(&comm->waiting, true);
    pthread_cond_broadcast(&comm->changed);
    *ret = work;
    return 0;
}

/* Takes ownership of `request->row_space`, also on failure. */
int work_submit(struct wk_comm *comm, struct request *request, struct wk_work **ret_work)
{
    struct wk_work *work = NULL;
    int rc = atomic_load(&comm->failure);
    if (rc != 0) {
        free(request->row_space);
        return rc;
    }
    if (!ret_work && gate_enter(comm)) {
        rc = collective_run(comm, request);
        gate_leave(comm);
    } else {
        pthread_mutex_lock(&comm->lock);
        rc = enqueue(comm, request, &work);
        pthread_mutex_unlock(&comm->lock);
    }
    if (!work)
        free(request->row_space);
    if (rc == 0 && ret_work)
        *ret_work = work;
    else if (work)
        rc = wk_wait(work);
    return rc;
}

int wk_comm_rank(const struct wk_comm *comm)
{
    return comm->rank;
}

int wk_comm_world(const struct wk_comm *comm)
{
    return comm->world;
}

void wk_comm_abort(struct wk_comm *comm)
{
    if (comm)
        comm_fail(comm, WK_EABORT, -1, "aborted by rank %d", comm->rank);
}

const char *wk_comm_error(struct wk_comm *comm)
{
    if (!comm)
        return error_kept();
    return atomic_load(&comm->failure) != 0 ? comm->failure_text : comm->argument_text;
}

int wk_comm_lost(struct wk_comm *comm, int *ranks, int max)
{
    int lost = 0;
    if (!comm)
        return 0;
    control_sweep(comm);
    for (int p = 0; p < comm->world; p++) {
        if (!atomic_load(&comm->peers[p].dead))
            continue;
        if (lost < max)
            ranks[lost] = p;
        lost++;
    }
    return lost;
}

/* End all queued requests: they will not run any more. */
static void stop(struct wk_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    bool unfinished = atomic_load(&comm->running) || comm->first;
    comm->closing = true;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    if (unfinished)
        wk_comm_abort(comm);
    if (comm->has_thread)
        pthread_join(comm->thread, NULL);
    while (comm->first)
        work_end(pop(comm), atomic_load(&comm->failure));
}

/* A rank that was wrongly presumed dead could still write into our arenas: revoke its access. */
static void defend_arenas(struct wk_comm *comm)
{
    if (comm->arenas_announced == 0 || atomic_load(&comm->failure) == 0 || board_quiesce(comm))
        return;
    for (int i = 0; i < comm->arena_count; i++)
        if (comm->arenas[i].number > 0)
            (void)arena_revoke(
                comm->arenas[i].arena); /* otherwise the arena is refused at its next use */
}

void wk_comm_close(struct wk_comm *comm)
{
    if (!comm)
        return;
    stop(comm);
    if (comm->has_segment)
        atomic_store(&comm->segment.head->done.quiet, 1);
    defend_arenas(comm);
    control_goodbye(comm);
    group_leave(comm);
    comm_release(comm);
}

int wk_comm_register(struct wk_comm *comm, struct wk_arena *arena)
{
    if (!comm)
        return comm_missing();
    if (!arena)
        return comm_argument_error(comm, WK_EINVAL, "wk_comm_register of NULL instead of an arena");
    if (atomic_load(&arena->exposed))
        return comm_argument_error(comm, WK_ENOMEM, ARENA_EXPOSED);
    for (int i = 0; i < comm->arena_count; i++)
        if (comm->arenas[i].arena == arena)
            return 0;
    if (comm->arena_count == COMM_ARENAS_MAX)
        return comm_argument_error(comm, WK_ENOMEM, "%d arenas are registered already",
                                   comm->arena_count);
    comm->arenas[comm->arena_count++] = (struct registered){.arena = arena_hold(arena)};
    return 0;
}
