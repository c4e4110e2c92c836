/* Work that others ask the loop for, at most some time of it in a turn, shared between those who
 * ask (common/base/turns.h). What there is no time for waits for the next turn; meanwhile the
 * turn's end answers, and others of the loop's guests have their time. A piece of work is never
 * cut: a turn takes its time and the piece at hand.
 *
 * Embedded by its owner; loop thread only. On a loop for simulation its clock is the loop's.
 */
#ifndef LOOP_FAIR_H
#define LOOP_FAIR_H

#include "common/base/turns.h"
#include "common/loop/loop.h"

/* Do some of the work: an item with more of it is handed in again, by fair_ready. */
typedef void (*fair_fn)(void *arg, struct list *item);

struct fair {
    struct loop *loop;
    fair_fn work;
    void *arg;
    int64_t turn_ms; /* of a turn */
    struct turns turns;
    struct loop_timer again;
    uint64_t turn; /* in which `spent_ms` was */
    int64_t spent_ms;
    bool working; /* `work` is being called */
};

void fair_init(struct fair *fair, struct loop *loop, int64_t turn_ms, fair_fn work, void *arg);
void fair_fini(struct fair *fair); /* its items are in no list after it */

/* There is work: done at once if there is time and nobody waits. An item that waits stays where it
 * is; list_remove takes it back. */
void fair_ready(struct fair *fair, uint64_t whose, struct list *item);

#endif
