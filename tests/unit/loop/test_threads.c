/* The real loop: posts from threads, offloaded work, descriptors, waiting. The order within one
 * thread and the absence of data races are what matters: a plain program, so that the thread
 * sanitizer can watch it. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "common/env/clock_os.h"
#include "common/loop/loop.h"
#include "common/loop/mailbox.h"
#include "tests/lib/check.h"

enum { THREADS = 4, POSTS = 30000 };

static struct loop *loop; /* of the case that runs */

static int64_t now_ms(void)
{
    struct clock clock = clock_os();
    return clock.now_ms(clock.self);
}

static void open_loop(void)
{
    CHECK(loop_new(clock_os(), &loop, NULL) == 0);
}

static void close_loop(void)
{
    loop_free(loop);
    loop = NULL;
}

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
    CHECK(message->number == seen[message->thread]);
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

static void posts_of_each_thread_arrive_once_and_in_order(void)
{
    open_loop();
    static struct poster posters[THREADS]; /* 120,000 posts: more than the mailbox holds */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        posters[i].thread = i;
        pthread_create(&threads[i], NULL, post_all, &posters[i]);
    }
    loop_run(loop);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(seen[i] == POSTS);
    }
    close_loop();
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

static void a_full_mailbox_makes_the_poster_wait_and_loses_nothing(void)
{
    open_loop();
    pthread_t thread;
    pthread_create(&thread, NULL, post_one_too_many, NULL);
    while (atomic_load(&posted) < LOOP_MAILBOX_MAX)
        pause_ms(1);
    pause_ms(20);
    CHECK(atomic_load(&posted) == LOOP_MAILBOX_MAX);
    loop_turn(loop);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&posted) == LOOP_MAILBOX_MAX + 1);
    close_loop();
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

static void offloaded_work_runs_elsewhere_and_ends_on_the_loop(void)
{
    open_loop();
    static struct job jobs[200];
    for (int i = 0; i < 200; i++)
        loop_offload(loop, work, done, &jobs[i]);
    loop_run(loop);
    for (int i = 0; i < 200; i++) {
        CHECK(jobs[i].value == 2);
        CHECK(pthread_equal(jobs[i].finisher, pthread_self()));
        CHECK(!pthread_equal(jobs[i].worker, pthread_self()));
    }
    close_loop();
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
    CHECK(!"ran after the loop was freed");
}

static void freeing_waits_for_running_work_and_forgets_the_rest(void)
{
    open_loop();
    struct loop *other;
    CHECK(loop_new(clock_os(), &other, NULL) == 0);
    for (int i = 0; i < 100; i++)
        loop_offload(other, slow, not_reached, NULL);
    pause_ms(10);
    loop_free(other);
    CHECK(atomic_load(&slow_ended) <= 4);
    int at_free = atomic_load(&slow_ended);
    pause_ms(50);
    CHECK(atomic_load(&slow_ended) == at_free);
    close_loop();
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void a_timer_wakes_the_waiting_loop_not_before_its_time(void)
{
    open_loop();
    struct loop_timer timer = {0};
    int64_t start = loop_now_ms(loop);
    loop_timer_set(loop, &timer, start + 30, stop, loop);
    loop_run(loop);
    CHECK(loop_now_ms(loop) >= start + 30);
    close_loop();
}

static void *stop_later(void *arg)
{
    pause_ms(20);
    loop_stop(arg);
    return NULL;
}

static void stop_from_another_thread_ends_a_loop_that_waits_for_nothing(void)
{
    open_loop();
    pthread_t thread;
    pthread_create(&thread, NULL, stop_later, loop);
    loop_run(loop);
    pthread_join(thread, NULL);
    loop_stop(loop);
    loop_run(loop); /* a stop before the run ends it at once */
    close_loop();
}

struct pipe_watch {
    int fds[2][2];
    int calls;
};

static void read_one(void *arg, int fd, uint32_t events)
{
    struct pipe_watch *watch = arg;
    char byte;
    CHECK(events & EPOLLIN);
    CHECK(read(fd, &byte, 1) == 1);
    if (++watch->calls == 3)
        loop_stop(loop);
}

static void a_watched_descriptor_calls_until_it_is_drained(void)
{
    open_loop();
    struct pipe_watch watch = {0};
    CHECK(pipe(watch.fds[0]) == 0);
    CHECK(loop_watch(loop, watch.fds[0][0], EPOLLIN, read_one, &watch, NULL) == 0);
    CHECK(loop_watch(loop, watch.fds[0][0], EPOLLIN, read_one, &watch, NULL) == E_ALREADY_EXISTS);
    CHECK(write(watch.fds[0][1], "abc", 3) == 3);
    loop_run(loop);
    CHECK(watch.calls == 3);
    loop_unwatch(loop, watch.fds[0][0]);
    loop_unwatch(loop, watch.fds[0][0]);
    CHECK(write(watch.fds[0][1], "d", 1) == 1);
    loop_turn(loop);
    CHECK(watch.calls == 3);
    close(watch.fds[0][0]);
    close(watch.fds[0][1]);
    CHECK(loop_watch(loop, -1, EPOLLIN, read_one, &watch, NULL) != 0);
    CHECK(loop_watch(loop, 1000000, EPOLLIN, read_one, &watch, NULL) != 0);
    close_loop();
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

static void a_callback_may_unwatch_another_descriptor_that_is_ready(void)
{
    open_loop();
    struct pipe_watch watch = {0};
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(watch.fds[i]) == 0);
        CHECK(loop_watch(loop, watch.fds[i][0], EPOLLIN, unwatch_both, &watch, NULL) == 0);
        CHECK(write(watch.fds[i][1], "x", 1) == 1);
    }
    loop_turn(loop);
    CHECK(watch.calls == 1);
    for (int i = 0; i < 2; i++) {
        close(watch.fds[i][0]);
        close(watch.fds[i][1]);
    }
    close_loop();
}

static void refuse_event(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
    CHECK(!"an event of the closed descriptor reached the new one");
}

/* Close the other descriptor and watch a new, silent one that gets its number. */
static void replace_other(void *arg, int fd, uint32_t events)
{
    struct pipe_watch *watch = arg;
    int other = fd == watch->fds[0][0] ? watch->fds[1][0] : watch->fds[0][0];
    int silent[2];
    (void)events;
    watch->calls++;
    loop_unwatch(loop, fd);
    loop_unwatch(loop, other);
    CHECK(pipe(silent) == 0);
    CHECK(dup2(silent[0], other) == other);
    CHECK(loop_watch(loop, other, EPOLLIN, refuse_event, NULL, NULL) == 0);
    close(silent[0]); /* the writing end stays open: no hang-up to report */
}

static void an_event_of_a_closed_descriptor_does_not_reach_its_successor(void)
{
    open_loop();
    struct pipe_watch watch = {0};
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(watch.fds[i]) == 0);
        CHECK(loop_watch(loop, watch.fds[i][0], EPOLLIN, replace_other, &watch, NULL) == 0);
        CHECK(write(watch.fds[i][1], "x", 1) == 1);
    }
    loop_turn(loop);
    CHECK(watch.calls == 1);
    close_loop();
}

/* A loop that stands still with a timer due, and what a thread posts when it is over. */
static struct stall {
    int64_t over_ms, posted_ms; /* by the loop's clock */
    char order[8];              /* 'p' = the post was run, 't' = the timer */
} stall;

static void note(char what)
{
    size_t length = strlen(stall.order);
    stall.order[length] = what;
    if (length == 1)
        loop_stop(loop);
}

static void note_post(void *arg)
{
    (void)arg;
    note('p');
}

static void note_timer(void *arg)
{
    (void)arg;
    note('t');
}

/* It is woken when the stall is over, and has yet to post what it heard meanwhile. */
static void *post_after_the_stall(void *arg)
{
    (void)arg;
    usleep(3 * LOOP_LATE_MS * 1000 + LOOP_HEAR_MS * 1000 / 5);
    loop_post(loop, note_post, NULL);
    stall.posted_ms = now_ms();
    return NULL;
}

static void stand_still(void *arg)
{
    pthread_create(arg, NULL, post_after_the_stall, NULL);
    usleep(3 * LOOP_LATE_MS * 1000);
    stall.over_ms = now_ms();
}

/* Whether the machine ran the posting thread in time; if it did not, the order says nothing. */
static bool a_stall_tells(void)
{
    pthread_t thread;
    struct loop_timer timer = {0};
    stall = (struct stall){0};
    open_loop();
    loop_timer_set(loop, &timer, loop_now_ms(loop) + LOOP_LATE_MS, note_timer, NULL);
    loop_post(loop, stand_still, &thread);
    loop_run(loop);
    pthread_join(thread, NULL);
    close_loop();
    return stall.posted_ms < stall.over_ms + LOOP_HEAR_MS;
}

static void what_arrived_while_it_stood_still_is_heard_before_late_timers(void)
{
    while (!a_stall_tells())
        ;
    CHECK(strcmp(stall.order, "pt") == 0);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(posts_of_each_thread_arrive_once_and_in_order),
        CHECK_CASE(a_full_mailbox_makes_the_poster_wait_and_loses_nothing),
        CHECK_CASE(offloaded_work_runs_elsewhere_and_ends_on_the_loop),
        CHECK_CASE(freeing_waits_for_running_work_and_forgets_the_rest),
        CHECK_CASE(a_timer_wakes_the_waiting_loop_not_before_its_time),
        CHECK_CASE(what_arrived_while_it_stood_still_is_heard_before_late_timers),
        CHECK_CASE(stop_from_another_thread_ends_a_loop_that_waits_for_nothing),
        CHECK_CASE(a_watched_descriptor_calls_until_it_is_drained),
        CHECK_CASE(a_callback_may_unwatch_another_descriptor_that_is_ready),
        CHECK_CASE(an_event_of_a_closed_descriptor_does_not_reach_its_successor),
        {0},
    };
    return check_all(cases, argc, argv);
}
