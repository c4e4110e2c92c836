#include "common/loop/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/loop/mailbox.h"
#include "common/loop/offload.h"

enum { EVENTS_PER_TURN = 256, WATCHERS_FIRST = 64 };

struct watcher {
    loop_fd_fn fn;
    void *arg;
    uint32_t generation; /* distinguishes an event of this watch from one of an earlier watch of its
                          * fd */
};

struct loop {
    struct clock clock;
    int64_t now_ms;
    uint64_t turns;
    int64_t hear_until_ms; /* timers are late and wait until then; 0 = they are not */
    struct heap timers;    /* armed */
    struct heap due;       /* removed from `timers` by the turn that is firing them */
    uint64_t timer_sequence;
    struct mailbox box;
    struct offload offload;
    struct watcher *watchers; /* by descriptor; without a callback: it is not watched */
    int watchers_size;
    uint32_t watch_generation;
    loop_fn turn_end;
    void *turn_end_arg;
    loop_slow_fn slow;
    void *slow_arg;
    bool simulated;
    atomic_bool stopping;
    _Atomic(pthread_t) thread; /* the thread that runs it: its posts never wait */
    atomic_bool has_thread;
    int epoll_fd, wake_fd;
};

static void drain_wake_fd(void *arg, int fd, uint32_t events)
{
    uint64_t count;
    (void)arg;
    (void)events;
    if (read(fd, &count, sizeof(count)) < 0)
        insist(errno == EAGAIN);
}

static struct loop *loop_alloc(struct clock clock, int wake_fd)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->clock = clock;
    loop->now_ms = clock.now_ms(clock.self);
    loop->epoll_fd = -1;
    loop->wake_fd = wake_fd;
    mailbox_init(&loop->box, wake_fd);
    return loop;
}

int loop_new_simulated(struct clock clock, struct loop **ret, struct error *err)
{
    struct loop *loop = loop_alloc(clock, -1);
    if (!loop)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a loop");
    loop->simulated = true;
    *ret = loop;
    return 0;
}

int loop_new(struct clock clock, struct loop **ret, struct error *err)
{
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return error_errno(err, errno, "eventfd");
    struct loop *loop = loop_alloc(clock, wake_fd);
    if (!loop) {
        close(wake_fd);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a loop");
    }
    int rc = 0;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        rc = error_errno(err, errno, "epoll_create1");
    if (!rc)
        rc = loop_watch(loop, wake_fd, EPOLLIN, drain_wake_fd, NULL, err);
    if (!rc)
        rc = offload_init(&loop->offload, &loop->box, err);
    if (rc)
        loop_free(loop);
    else
        *ret = loop;
    return rc;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    mailbox_close(&loop->box); /* or a full mailbox would keep the side threads from ending */
    offload_fini(&loop->offload);
    mailbox_fini(&loop->box);
    heap_fini(&loop->timers);
    heap_fini(&loop->due);
    free(loop->watchers);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    free(loop);
}

int64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

int64_t loop_clock_ms(const struct loop *loop)
{
    return loop->clock.now_ms(loop->clock.self);
}

uint64_t loop_turns(const struct loop *loop)
{
    return loop->turns;
}

void loop_on_turn_end(struct loop *loop, loop_fn fn, void *arg)
{
    loop->turn_end = fn;
    loop->turn_end_arg = arg;
}

void loop_on_slow_turn(struct loop *loop, loop_slow_fn fn, void *arg)
{
    loop->slow = fn;
    loop->slow_arg = arg;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t due_ms, loop_fn fn,
                    void *arg)
{
    loop_timer_cancel(loop, timer);
    timer->node.key = due_ms;
    timer->node.sequence = ++loop->timer_sequence;
    timer->fn = fn;
    timer->arg = arg;
    insist(!heap_push(&loop->timers, &timer->node));
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
    struct heap_node *node = &timer->node;
    if (!heap_contains(node))
        return;
    bool firing = node->index <= loop->due.count && loop->due.slots[node->index - 1].node == node;
    heap_remove(firing ? &loop->due : &loop->timers, node);
}

/* Timers armed by these callbacks wait for the next turn, even those due now. */
static size_t fire_timers(struct loop *loop)
{
    struct heap_node *node;
    size_t fired = 0;
    while ((node = heap_peek(&loop->timers)) && node->key <= loop->now_ms) {
        heap_pop(&loop->timers);
        insist(!heap_push(&loop->due, node));
    }
    while ((node = heap_pop(&loop->due))) {
        struct loop_timer *timer = heap_entry(node, struct loop_timer, node);
        timer->fn(timer->arg);
        fired++;
    }
    return fired;
}

static int64_t next_due_ms(const struct loop *loop)
{
    const struct heap_node *node = heap_peek(&loop->timers);
    return node ? node->key : INT64_MAX;
}

static bool is_watched(const struct loop *loop, int fd)
{
    return fd >= 0 && fd < loop->watchers_size && loop->watchers[fd].fn;
}

static size_t dispatch_events(struct loop *loop, const struct epoll_event *events, int count)
{
    size_t ran = 0;
    for (int i = 0; i < count; i++) {
        int fd = (int)(events[i].data.u64 & UINT32_MAX);
        uint32_t generation = (uint32_t)(events[i].data.u64 >> 32);
        if (!is_watched(loop, fd) || loop->watchers[fd].generation != generation)
            continue; /* unwatched by an earlier callback of this turn */
        struct watcher watcher = loop->watchers[fd]; /* its callback may move them all */
        watcher.fn(watcher.arg, fd, events[i].events);
        if (fd != loop->wake_fd)
            ran++;
    }
    return ran;
}

/* True if timers must wait for data that arrived while the process was paused. A real loop waits
 * for the transport's threads to post it; in simulation it is already in the mailbox. */
static bool hears_first(struct loop *loop)
{
    int64_t due_ms = next_due_ms(loop);
    if (due_ms == INT64_MAX || loop->now_ms - due_ms < LOOP_LATE_MS)
        loop->hear_until_ms = 0;
    else if (!loop->hear_until_ms)
        loop->hear_until_ms = loop->now_ms + (loop->simulated ? 0 : LOOP_HEAR_MS);
    return loop->now_ms < loop->hear_until_ms;
}

/* The time since `from_ms`, which becomes now. */
static int64_t lap_ms(const struct loop *loop, int64_t *from_ms)
{
    int64_t now_ms = loop_clock_ms(loop), lap = now_ms - *from_ms;
    *from_ms = now_ms;
    return lap;
}

/* The stages of a turn; returns how many callbacks ran. */
static size_t run_stages(struct loop *loop, const struct epoll_event *events, int count)
{
    struct loop_turn times = {0};
    int64_t from_ms = loop->now_ms;
    bool hears = hears_first(loop);
    size_t ran = loop->hear_until_ms ? mailbox_run(&loop->box) : 0;
    times.posts_ms = lap_ms(loop, &from_ms);
    ran += hears ? 0 : fire_timers(loop);
    times.timers_ms = lap_ms(loop, &from_ms);
    ran += mailbox_run(&loop->box);
    times.posts_ms += lap_ms(loop, &from_ms);
    ran += dispatch_events(loop, events, count);
    times.descriptors_ms = lap_ms(loop, &from_ms);
    if (ran && loop->turn_end)
        loop->turn_end(loop->turn_end_arg);
    times.end_ms = lap_ms(loop, &from_ms);
    if (ran > 0 && loop->slow && from_ms - loop->now_ms >= LOOP_SLOW_MS)
        loop->slow(loop->slow_arg, &times);
    return ran;
}

/* One turn; waits up to `wait_ms` for something to do. Returns how many callbacks ran. */
static size_t run_turn(struct loop *loop, int wait_ms)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = 0;
    if (!loop->simulated) {
        count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_TURN, wait_ms);
        insist(count >= 0 || errno == EINTR);
    }
    loop->now_ms = loop->clock.now_ms(loop->clock.self);
    loop->turns++;
    return run_stages(loop, events, count);
}

static int wait_time_ms(struct loop *loop)
{
    int64_t due = next_due_ms(loop);
    if (!mailbox_empty(&loop->box))
        return 0;
    if (due == INT64_MAX)
        return -1;
    if (due < loop->hear_until_ms)
        due = loop->hear_until_ms;
    int64_t now = loop->clock.now_ms(loop->clock.self);
    if (due <= now)
        return 0;
    return due - now > INT_MAX ? INT_MAX : (int)(due - now);
}

void loop_run(struct loop *loop)
{
    never(loop->simulated);
    atomic_store(&loop->thread, pthread_self());
    atomic_store(&loop->has_thread, true);
    while (!atomic_load(&loop->stopping))
        run_turn(loop, wait_time_ms(loop));
    atomic_store(&loop->stopping, false);
    atomic_store(&loop->has_thread, false);
}

static void do_nothing(void *arg)
{
    (void)arg;
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stopping, true);
    mailbox_post(&loop->box, (struct post){do_nothing, NULL}, false);
}

int64_t loop_turn(struct loop *loop)
{
    for (int pass = 0; pass < LOOP_PASSES_MAX; pass++)
        if (run_turn(loop, 0) == 0)
            return next_due_ms(loop);
    return loop->now_ms;
}

static bool on_loop_thread(struct loop *loop)
{
    return loop->simulated || (atomic_load(&loop->has_thread) &&
                               pthread_equal(atomic_load(&loop->thread), pthread_self()));
}

void loop_post(struct loop *loop, loop_fn fn, void *arg)
{
    mailbox_post(&loop->box, (struct post){fn, arg}, !on_loop_thread(loop));
}

void loop_offload(struct loop *loop, loop_fn work, loop_fn done, void *arg)
{
    if (!loop->simulated && offload_push(&loop->offload, work, done, arg))
        return;
    work(arg);
    loop_post(loop, done, arg);
}

static int watchers_reserve(struct loop *loop, int fd)
{
    int size = loop->watchers_size ? loop->watchers_size : WATCHERS_FIRST;
    if (fd < loop->watchers_size)
        return 0;
    while (size <= fd)
        size *= 2;
    struct watcher *more = realloc(loop->watchers, (size_t)size * sizeof(*more));
    if (!more)
        return E_RESOURCE_EXHAUSTED;
    memset(more + loop->watchers_size, 0, (size_t)(size - loop->watchers_size) * sizeof(*more));
    loop->watchers = more;
    loop->watchers_size = size;
    return 0;
}

int loop_watch(struct loop *loop, int fd, uint32_t epoll_events, loop_fd_fn fn, void *arg,
               struct error *err)
{
    if (loop->simulated || fd < 0)
        return error_set(err, E_FAILED_PRECONDITION, "descriptor %d cannot be watched", fd);
    if (is_watched(loop, fd))
        return error_set(err, E_ALREADY_EXISTS, "descriptor %d is watched already", fd);
    if (watchers_reserve(loop, fd))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory to watch a descriptor");
    struct watcher watcher = {fn, arg, ++loop->watch_generation};
    struct epoll_event event = {
        .events = epoll_events,
        .data.u64 = (uint64_t)watcher.generation << 32 | (uint32_t)fd,
    };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return error_errno(err, errno, "cannot watch descriptor %d", fd);
    loop->watchers[fd] = watcher;
    return 0;
}

void loop_unwatch(struct loop *loop, int fd)
{
    if (!is_watched(loop, fd))
        return;
    loop->watchers[fd] = (struct watcher){0};
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}
