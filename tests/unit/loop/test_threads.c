/* The real loop: posts from threads, offloaded work, descriptors, waiting. The order within one
 * thread and the absence of data races are what matters; run under the thread sanitizer too. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "common/loop/loop.h"

enum { THREADS = 4, POSTS = 30000 };

static struct loop *loop;

static void setup(void)
{
    cr_assert_eq(loop_new(&loop, NULL), 0);
}

static void teardown(void)
{
    loop_free(loop);
}

TestSuite(threads, .init = setup, .fini = teardown, .timeout = 30);

struct message {
    int thread, number;
};

struct poster {
    int thread;
    struct message messages[POSTS];
};

static int seen[THREADS], total; /* the loop thread's alone */

static void receive(void *arg)
{
    const struct message *message = arg;
    cr_assert_eq(message->number, seen[message->thread]);
    seen[message->thread]++;
    if (++total == THREADS * POSTS)
        loop_stop(loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < POSTS; i++) {
        poster->messages[i] = (struct message){poster->thread, i};
        loop_post(loop, receive, &poster->messages[i]);
    }
    return NULL;
}

Test(threads, posts_of_each_thread_arrive_once_and_in_order)
{
    static struct poster posters[THREADS]; /* 120,000 posts: more than the mailbox holds */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        posters[i].thread = i;
        pthread_create(&threads[i], NULL, post_all, &posters[i]);
    }
    loop_run(loop);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(seen[i], POSTS);
    }
}

static atomic_int posted;

static void nothing(void *arg)
{
    (void)arg;
}

static void *post_one_too_many(void *arg)
{
    for (int i = 0; i < LOOP_MAILBOX_MAX + 1; i++) {
        loop_post(loop, nothing, arg);
        atomic_fetch_add(&posted, 1);
    }
    return NULL;
}

static void pause_ms(int ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000l};
    nanosleep(&time, NULL);
}

Test(threads, a_full_mailbox_makes_the_poster_wait_and_loses_nothing)
{
    pthread_t thread;
    pthread_create(&thread, NULL, post_one_too_many, NULL);
    while (atomic_load(&posted) < LOOP_MAILBOX_MAX)
        pause_ms(1);
    pause_ms(20);
    cr_assert_eq(atomic_load(&posted), LOOP_MAILBOX_MAX, "one more waits");
    loop_turn(loop);
    pthread_join(thread, NULL);
    cr_assert_eq(atomic_load(&posted), LOOP_MAILBOX_MAX + 1);
}

struct job {
    pthread_t worker, finisher;
    int value;
};

static void work(void *arg)
{
    struct job *job = arg;
    job->worker = pthread_self();
    job->value++;
}

static int finished;

static void done(void *arg)
{
    struct job *job = arg;
    job->finisher = pthread_self();
    job->value *= 2;
    if (++finished == 200)
        loop_stop(loop);
}

Test(threads, offloaded_work_runs_elsewhere_and_ends_on_the_loop)
{
    static struct job jobs[200];
    for (int i = 0; i < 200; i++)
        loop_offload(loop, work, done, &jobs[i]);
    loop_run(loop);
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(jobs[i].value, 2);
        cr_assert(pthread_equal(jobs[i].finisher, pthread_self()));
        cr_assert_not(pthread_equal(jobs[i].worker, pthread_self()));
    }
}

static atomic_int slow_ended;

static void slow(void *arg)
{
    (void)arg;
    pause_ms(30);
    atomic_fetch_add(&slow_ended, 1);
}

static void not_reached(void *arg)
{
    (void)arg;
    cr_assert_fail("ran after the loop was freed");
}

Test(threads, freeing_waits_for_running_work_and_forgets_the_rest)
{
    struct loop *other;
    cr_assert_eq(loop_new(&other, NULL), 0);
    for (int i = 0; i < 100; i++)
        loop_offload(other, slow, not_reached, NULL);
    pause_ms(10);
    loop_free(other);
    cr_assert_leq(atomic_load(&slow_ended), 4);
    int at_free = atomic_load(&slow_ended);
    pause_ms(50);
    cr_assert_eq(atomic_load(&slow_ended), at_free);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

Test(threads, a_timer_wakes_the_waiting_loop_not_before_its_time)
{
    struct loop_timer timer = {0};
    int64_t start = loop_now_ms(loop);
    loop_timer_set(loop, &timer, start + 30, stop, loop);
    loop_run(loop);
    cr_assert_geq(loop_now_ms(loop), start + 30);
}

static void *stop_later(void *arg)
{
    pause_ms(20);
    loop_stop(arg);
    return NULL;
}

Test(threads, stop_from_another_thread_ends_a_loop_that_waits_for_nothing)
{
    pthread_t thread;
    pthread_create(&thread, NULL, stop_later, loop);
    loop_run(loop);
    pthread_join(thread, NULL);
    loop_stop(loop);
    loop_run(loop); /* a stop before the run ends it at once */
}

struct pipe_watch {
    int fds[2][2];
    int calls;
};

static void read_one(void *arg, int fd, uint32_t events)
{
    struct pipe_watch *watch = arg;
    char byte;
    cr_assert(events & EPOLLIN);
    cr_assert_eq(read(fd, &byte, 1), 1);
    if (++watch->calls == 3)
        loop_stop(loop);
}

Test(threads, a_watched_descriptor_calls_until_it_is_drained)
{
    struct pipe_watch watch = {0};
    cr_assert_eq(pipe(watch.fds[0]), 0);
    cr_assert_eq(loop_watch(loop, watch.fds[0][0], EPOLLIN, read_one, &watch, NULL), 0);
    cr_assert_eq(loop_watch(loop, watch.fds[0][0], EPOLLIN, read_one, &watch, NULL),
                 E_ALREADY_EXISTS);
    cr_assert_eq(write(watch.fds[0][1], "abc", 3), 3);
    loop_run(loop);
    cr_assert_eq(watch.calls, 3);
    loop_unwatch(loop, watch.fds[0][0]);
    loop_unwatch(loop, watch.fds[0][0]);
    cr_assert_eq(write(watch.fds[0][1], "d", 1), 1);
    loop_turn(loop);
    cr_assert_eq(watch.calls, 3);
    close(watch.fds[0][0]);
    close(watch.fds[0][1]);
    cr_assert_neq(loop_watch(loop, -1, EPOLLIN, read_one, &watch, NULL), 0);
    cr_assert_neq(loop_watch(loop, 1000000, EPOLLIN, read_one, &watch, NULL), 0);
}

static void unwatch_both(void *arg, int fd, uint32_t events)
{
    struct pipe_watch *watch = arg;
    (void)fd;
    (void)events;
    watch->calls++;
    loop_unwatch(loop, watch->fds[0][0]);
    loop_unwatch(loop, watch->fds[1][0]);
}

Test(threads, a_callback_may_unwatch_another_descriptor_that_is_ready)
{
    struct pipe_watch watch = {0};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pipe(watch.fds[i]), 0);
        cr_assert_eq(loop_watch(loop, watch.fds[i][0], EPOLLIN, unwatch_both, &watch, NULL), 0);
        cr_assert_eq(write(watch.fds[i][1], "x", 1), 1);
    }
    loop_turn(loop);
    cr_assert_eq(watch.calls, 1);
    for (int i = 0; i < 2; i++) {
        close(watch.fds[i][0]);
        close(watch.fds[i][1]);
    }
}
