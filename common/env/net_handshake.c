#include "common/env/net_handshake.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/list.h"
#include "common/env/clock_os.h"
#include "common/loop/loop.h"

enum {
    EVENTS_AT_ONCE = 64,
    CHECK_MS = 500,
    READ_BYTES = 8 << 10,
    NICE = 5, /* than the program: a flood of handshakes has a third of the loop's share of a CPU */
};

struct pending {
    struct list link; /* in its thread's `open`, oldest first; then in the finished ones */
    struct handshakes *all;
    int fd;
    struct sockaddr_storage address;
    struct tls_session *session;
    int64_t began_ms;
};

struct worker { /* one thread */
    struct handshakes *all;
    pthread_t thread;
    int epoll, wake;
    struct list open; /* its own */
    int count;
    pthread_mutex_t lock;
    struct list fresh; /* given by the loop; under the lock */
};

struct handshakes {
    struct loop *loop;
    struct tls_identity *identity;
    handshake_ready_fn on_ready;
    void *arg;
    int workers_count, next;
    int open_max; /* of each thread */
    bool started;
    atomic_bool stopping;
    pthread_mutex_t lock; /* of what follows */
    struct list finished;
    bool posted, silenced; /* freed, but for what a posted deliver needs */
    struct worker workers[NET_HANDSHAKE_THREADS_MAX];
};

static void pending_free(struct pending *it)
{
    list_remove(&it->link);
    tls_session_free(it->session);
    if (it->fd >= 0)
        close(it->fd);
    free(it);
}

static void handshakes_release(struct handshakes *all)
{
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* On the loop: hand over what is through. */
static void deliver_finished(void *arg)
{
    struct handshakes *all = arg;
    struct list batch;
    struct pending *it;
    list_init(&batch);
    pthread_mutex_lock(&all->lock);
    list_splice_back(&batch, &all->finished);
    all->posted = false;
    bool silenced = all->silenced;
    pthread_mutex_unlock(&all->lock);
    if (silenced) { /* it was emptied when silenced */
        handshakes_release(all);
        return;
    }
    while ((it = list_first(&batch, struct pending, link))) {
        int fd = it->fd;
        struct tls_session *session = it->session;
        struct sockaddr_storage address = it->address;
        it->fd = -1;
        it->session = NULL;
        pending_free(it);
        all->on_ready(all->arg, fd, session, &address);
    }
}

static void pending_finish(struct worker *worker, struct pending *it)
{
    struct handshakes *all = worker->all;
    (void)epoll_ctl(worker->epoll, EPOLL_CTL_DEL, it->fd, NULL);
    list_remove(&it->link);
    worker->count--;
    pthread_mutex_lock(&all->lock);
    list_push_back(&all->finished, &it->link);
    if (!all->posted && !all->silenced) {
        all->posted = true;
        loop_post(all->loop, deliver_finished, all);
    }
    pthread_mutex_unlock(&all->lock);
}

static void pending_drop(struct worker *worker, struct pending *it)
{
    worker->count--;
    pending_free(it); /* closing it ends its watch */
}

/* Send the session's output; false if that fails. A handshake fits every socket buffer, so a peer
 * with a full one is dropped. */
static bool send_output(struct pending *it)
{
    struct buf *out = tls_out(it->session);
    size_t at = 0;
    while (at < out->size) {
        ssize_t sent = send(it->fd, out->data + at, out->size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    buf_fini(out);
    return true;
}

static void pending_continue(struct worker *worker, struct pending *it)
{
    char bytes[READ_BYTES];
    ssize_t size;
    do
        size = recv(it->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    while (size < 0 && errno == EINTR);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size > 0 && !it->session && tls_server_new(worker->all->identity, &it->session, NULL))
        size = 0;
    if (size <= 0 || tls_feed(it->session, bytes, (size_t)size)) {
        pending_drop(worker, it);
        return;
    }
    int rc = tls_handshake(it->session, NULL);
    if (!send_output(it) || rc < 0)
        pending_drop(worker, it);
    else if (rc > 0)
        pending_finish(worker, it);
}

static void pending_begin(struct worker *worker, struct pending *it)
{
    struct pending *oldest;
    while (worker->count >= worker->all->open_max &&
           (oldest = list_first(&worker->open, struct pending, link)))
        pending_drop(worker, oldest);
    list_push_back(&worker->open, &it->link);
    worker->count++;
    it->began_ms = clock_os_now_ms();
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = it};
    if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, it->fd, &event) < 0)
        pending_drop(worker, it);
}

static void begin_fresh(struct worker *worker)
{
    uint64_t count;
    struct list batch;
    struct pending *it;
    list_init(&batch);
    (void)!read(worker->wake, &count, sizeof(count));
    pthread_mutex_lock(&worker->lock);
    list_splice_back(&batch, &worker->fresh);
    pthread_mutex_unlock(&worker->lock);
    while ((it = list_first(&batch, struct pending, link))) {
        list_remove(&it->link);
        pending_begin(worker, it);
    }
}

static void drop_late(struct worker *worker)
{
    struct pending *it;
    int64_t before_ms = clock_os_now_ms() - NET_HANDSHAKE_MS;
    while ((it = list_first(&worker->open, struct pending, link)) && it->began_ms < before_ms)
        pending_drop(worker, it);
}

/* Lowers the priority of this thread alone, on Linux. Without permission it stays as before. */
static void yield_to_the_loop(void)
{
    id_t self = (id_t)syscall(SYS_gettid);
    errno = 0;
    int now = getpriority(PRIO_PROCESS, self);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, self, now + NICE);
}

/* New connections are added last: that may drop an open one with an event in the same batch. */
static void *handshake_thread(void *arg)
{
    struct worker *worker = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    yield_to_the_loop();
    while (!atomic_load(&worker->all->stopping)) {
        bool fresh = false;
        int count = epoll_wait(worker->epoll, events, EVENTS_AT_ONCE, CHECK_MS);
        for (int i = 0; i < count; i++) {
            if (!events[i].data.ptr)
                fresh = true;
            else if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                pending_drop(worker, events[i].data.ptr); /* its client has given up */
            else
                pending_continue(worker, events[i].data.ptr);
        }
        if (fresh)
            begin_fresh(worker);
        drop_late(worker);
    }
    return NULL;
}

static int worker_start(struct handshakes *all, struct worker *worker)
{
    worker->all = all;
    list_init(&worker->open);
    list_init(&worker->fresh);
    pthread_mutex_init(&worker->lock, NULL);
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (worker->epoll < 0 || worker->wake < 0 ||
        epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->wake, &event) < 0)
        return E_RESOURCE_EXHAUSTED;
    return 0;
}

static void worker_fini(struct worker *worker)
{
    struct pending *it;
    while ((it = list_first(&worker->open, struct pending, link)))
        pending_free(it);
    while ((it = list_first(&worker->fresh, struct pending, link)))
        pending_free(it);
    if (worker->epoll >= 0)
        close(worker->epoll);
    if (worker->wake >= 0)
        close(worker->wake);
    pthread_mutex_destroy(&worker->lock);
}

int handshakes_new(struct loop *loop, struct tls_identity *identity, handshake_ready_fn on_ready,
                   void *arg, struct handshakes **ret, struct error *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct handshakes *all = calloc(1, sizeof(*all));
    if (!all)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for connections");
    all->loop = loop;
    all->identity = identity;
    all->on_ready = on_ready;
    all->arg = arg;
    list_init(&all->finished);
    pthread_mutex_init(&all->lock, NULL);
    cores = cores > NET_HANDSHAKE_THREADS_MAX ? NET_HANDSHAKE_THREADS_MAX : cores;
    for (int i = 0; i < cores || i < 1; i++) {
        all->workers_count++;
        if (worker_start(all, &all->workers[i])) {
            handshakes_free(all);
            return error_set(err, E_RESOURCE_EXHAUSTED, "no descriptors for TLS");
        }
    }
    *ret = all;
    return 0;
}

/* Descriptors are left for those that are through. */
static int open_max(int threads)
{
    struct rlimit files;
    rlim_t max = NET_HANDSHAKES_OPEN_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 4 * 3 < max)
        max = files.rlim_cur / 4 * 3;
    return (int)max / threads > 0 ? (int)max / threads : 1;
}

/* Threads that do not start leave their share to the others; if none does, the next connection
 * tries again. */
static void start_threads(struct handshakes *all)
{
    int running = 0;
    all->open_max = open_max(all->workers_count);
    for (int i = 0; i < all->workers_count; i++) {
        if (pthread_create(&all->workers[i].thread, NULL, handshake_thread, &all->workers[i]) != 0)
            break;
        running++;
    }
    if (running == 0)
        return;
    for (int i = running; i < all->workers_count; i++)
        worker_fini(&all->workers[i]);
    all->workers_count = running;
    all->started = true;
}

void handshakes_free(struct handshakes *all)
{
    struct pending *it;
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->silenced = true;
    pthread_mutex_unlock(&all->lock);
    atomic_store(&all->stopping, true);
    for (int i = 0; i < all->workers_count; i++) {
        uint64_t once = 1;
        if (all->started) {
            (void)!write(all->workers[i].wake, &once, sizeof(once));
            pthread_join(all->workers[i].thread, NULL);
        }
        worker_fini(&all->workers[i]);
    }
    while ((it = list_first(&all->finished, struct pending, link)))
        pending_free(it);
    if (!all->posted) /* else the loop still has it in its mailbox */
        handshakes_release(all);
}

void handshakes_add(struct handshakes *all, int fd, const struct sockaddr_storage *address)
{
    uint64_t once = 1;
    if (!all->started)
        start_threads(all);
    struct pending *it = all->started ? calloc(1, sizeof(*it)) : NULL;
    if (!it) {
        close(fd);
        return;
    }
    *it = (struct pending){.all = all, .fd = fd, .address = *address};
    list_init(&it->link);
    struct worker *worker = &all->workers[all->next++ % all->workers_count];
    pthread_mutex_lock(&worker->lock);
    bool first = list_empty(&worker->fresh);
    list_push_back(&worker->fresh, &it->link);
    pthread_mutex_unlock(&worker->lock);
    if (first) /* else it has been woken and has not looked */
        (void)!write(worker->wake, &once, sizeof(once));
}
