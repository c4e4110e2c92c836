#include "common/loop/fair.h"

void fair_init(struct fair *fair, struct loop *loop, int64_t turn_ms, fair_fn work, void *arg)
{
    *fair = (struct fair){.loop = loop, .turn_ms = turn_ms, .work = work, .arg = arg};
    turns_init(&fair->turns);
}

void fair_fini(struct fair *fair)
{
    loop_timer_cancel(fair->loop, &fair->again);
    turns_fini(&fair->turns);
}

static bool has_time(struct fair *fair)
{
    if (fair->turn != loop_turns(fair->loop)) {
        fair->turn = loop_turns(fair->loop);
        fair->spent_ms = 0;
    }
    return fair->spent_ms < fair->turn_ms;
}

/* Pieces are shorter than the clock's millisecond: each that sees it tick is charged for those that
 * did not, in proportion to how long they are. */
static int64_t do_work(struct fair *fair, struct list *item)
{
    int64_t from_ms = loop_clock_ms(fair->loop);
    fair->working = true;
    fair->work(fair->arg, item);
    fair->working = false;
    int64_t took_ms = loop_clock_ms(fair->loop) - from_ms;
    fair->spent_ms += took_ms;
    return took_ms;
}

static void work_on(void *arg);

static void come_back(struct fair *fair)
{
    if (!turns_empty(&fair->turns) && !loop_timer_armed(&fair->again))
        loop_timer_set(fair->loop, &fair->again, loop_now_ms(fair->loop), work_on, fair);
}

static bool work_once(struct fair *fair)
{
    struct list *item = has_time(fair) ? turns_next(&fair->turns) : NULL;
    if (item)
        turns_charge(&fair->turns, do_work(fair, item));
    return item;
}

static void work_on(void *arg)
{
    struct fair *fair = arg;
    while (work_once(fair))
        ;
    come_back(fair);
}

void fair_ready(struct fair *fair, uint64_t whose, struct list *item)
{
    if (!list_empty(item))
        return;
    if (!fair->working && turns_empty(&fair->turns) && has_time(fair)) {
        (void)do_work(fair, item);
    } else {
        turns_add(&fair->turns, whose, item);
        if (!fair->working) /* one piece per call: its owner is unknown */
            (void)work_once(fair);
    }
    come_back(fair);
}
