/* Work requested of the loop, limited to some time per turn and shared between its owners
 * (common/base/turns.h). Work beyond that time waits for the next turn; meanwhile the turn's end
 * answers, and other users of the loop get their time. A piece of work is never interrupted: a turn
 * may exceed its time by the last piece.
 *
 * Embedded by its owner; loop thread only. On a loop for simulation its clock is the loop's.
 */
#ifndef LOOP_FAIR_H
#define LOOP_FAIR_H

#include "common/base/turns.h"
#include "common/loop/loop.h"

/* Do some of the work; an item with more of it calls fair_ready again. */
typedef void (*fair_fn)(void *arg, struct list *item);

struct fair {
    struct loop *loop;
    fair_fn work;
    void *arg;
    int64_t turn_ms; /* of a turn */
    struct turns turns;
    struct loop_timer again;
    uint64_t turn; /* the turn of `spent_ms` */
    int64_t spent_ms;
    bool working; /* `work` is being called */
};

void fair_init(struct fair *fair, struct loop *loop, int64_t turn_ms, fair_fn work, void *arg);
void fair_fini(struct fair *fair); /* its items are in no list afterwards */

/* There is work. It is done at once if there is time and no item waits. A waiting item stays in
 * place; list_remove withdraws it. */
void fair_ready(struct fair *fair, uint64_t whose, struct list *item);

#endif
