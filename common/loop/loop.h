/* The one thread that owns all state of a program: timers, a mailbox, watched file descriptors and
 * blocking work on side threads. The stages follow libuv: due timers in order (deadline, then start
 * order), then the mailbox in arrival order, then descriptors, then the turn's end. Work armed or
 * posted in a stage waits for the next turn, so no stage can starve the others.
 *
 * Timers that are late by LOOP_LATE_MS mean that the process was paused. Then everything that
 * arrived meanwhile is handled before them, so that a peer that has sent is not declared silent.
 *
 * All functions run on the loop's own thread, except loop_post and loop_stop, which any thread (and
 * NNG callbacks) may call. In simulation nothing blocks: the simulated world calls loop_turn with
 * its own clock, offloaded work runs inline, descriptors cannot be watched.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/heap.h"
#include "common/loop/callback.h"
#include "common/loop/clock.h"

struct loop;

enum {
    LOOP_PASSES_MAX = 1024, /* turns within one loop_turn */
    LOOP_LATE_MS = 100,
    LOOP_HEAR_MS = 50, /* late timers wait this long for posts of other threads */
    LOOP_SLOW_MS = 1000,
};

struct loop_turn { /* how long each stage of a turn took */
    int64_t timers_ms, posts_ms, descriptors_ms, end_ms;
};
typedef void (*loop_slow_fn)(void *arg, const struct loop_turn *turn);

struct loop_timer {        /* embedded by its owner; zeroed memory is an unarmed timer */
    struct heap_node node; /* key: due time in ms */
    loop_fn fn;
    void *arg;
};

static inline bool loop_timer_armed(const struct loop_timer *timer)
{
    return heap_contains(&timer->node);
}

/* A real loop (epoll, eventfd, two offload threads). `clock` must run as epoll_wait's timeouts do:
 * clock_os (env/clock_os.h). */
int loop_new(struct clock clock, struct loop **ret, struct error *err);
/* A loop for simulation: no threads, no descriptors. */
int loop_new_simulated(struct clock clock, struct loop **ret, struct error *err);

/* Waits for running work; forgets queued work. No thread may post any more. */
void loop_free(struct loop *loop);

/* Read once per turn; constant during a turn. */
int64_t loop_now_ms(const struct loop *loop);
int64_t loop_clock_ms(const struct loop *loop); /* at this moment, to measure the present turn */
uint64_t loop_turns(const struct loop *loop);   /* number of turns begun, which numbers this one */

/* Run turns until loop_stop. Real loops only. A loop_stop before loop_run ends it at once. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Run turns without waiting until nothing is due and the mailbox is empty; returns the next timer's
 * due time, INT64_MAX if none. After LOOP_PASSES_MAX turns it stops and returns the present time.
 */
int64_t loop_turn(struct loop *loop);

/* Called at the end of each turn in which anything ran: a driver commits and replies there. */
void loop_on_turn_end(struct loop *loop, loop_fn fn, void *arg);

/* Called after each turn of LOOP_SLOW_MS or longer, so that an operator can learn why a program did
 * not answer. Waiting for something to do is not part of a turn. */
void loop_on_slow_turn(struct loop *loop, loop_slow_fn fn, void *arg);

/* Arm (or re-arm) at an absolute loop time; equal times fire in the order they were armed. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t due_ms, loop_fn fn,
                    void *arg);
void loop_timer_cancel(struct loop *loop, struct loop_timer *timer); /* unarmed is allowed */

/* Run fn(arg) on the loop thread, in order of arrival. Any thread. A full mailbox
 * (LOOP_MAILBOX_MAX) blocks the posting thread, but never the loop's own; no post is dropped. */
void loop_post(struct loop *loop, loop_fn fn, void *arg);

/* Run `work` on a side thread, then `done` on the loop thread. The caller keeps `arg` valid until
 * done. When LOOP_OFFLOAD_MAX are waiting, `work` runs on the loop thread. */
void loop_offload(struct loop *loop, loop_fn work, loop_fn done, void *arg);

/* Watch a descriptor (level triggered). The loop does not own it. Unwatch before closing it. */
int loop_watch(struct loop *loop, int fd, uint32_t epoll_events, loop_fd_fn fn, void *arg,
               struct error *err);
void loop_unwatch(struct loop *loop, int fd);

#endif
