#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/cuda/emulated/block.h"

static struct copies *copies_of(struct lane *lane)
{
    if (!lane->copies)
        lane->copies = calloc(1, sizeof(*lane->copies));
    insist(lane->copies);
    return lane->copies;
}

static void copy_do(const struct emulated_copy *copy)
{
    memcpy(copy->to, copy->from, copy->bytes);
    memset((char *)copy->to + copy->bytes, 0, copy->room - copy->bytes);
}

/* Of those under way, copies of groups before `group` are done. */
static void copies_finish(struct copies *copies, int group)
{
    int done = 0;
    while (done < copies->n && copies->group[done] < group)
        copy_do(&copies->copy[done++]);
    copies->n -= done;
    memmove(copies->copy, copies->copy + done, (size_t)copies->n * sizeof(copies->copy[0]));
    memmove(copies->group, copies->group + done, (size_t)copies->n * sizeof(copies->group[0]));
}

/* By chance at once or as late as is allowed: what is right does not depend on it. */
void emulated_copy_add(const struct emulated_copy *copy)
{
    struct lane *lane = lane_now();
    struct copies *copies = copies_of(lane);
    if (copy->bytes > copy->room || (uintptr_t)copy->to % copy->room ||
        (copy->bytes && (uintptr_t)copy->from % copy->room))
        emulated_fault("a copy of %u of %u bytes from %p to %p: both are aligned to the latter",
                       copy->bytes, copy->room, copy->from, copy->to);
    if (copies->n == LANE_COPIES_MAX)
        emulated_fault("a lane has %d copies under way", LANE_COPIES_MAX);
    if (block_random(lane->view.block, 4) == 0) {
        copy_do(copy);
        return;
    }
    copies->group[copies->n] = copies->groups;
    copies->copy[copies->n++] = *copy;
}

void emulated_copy_commit(void)
{
    copies_of(lane_now())->groups++;
}

void emulated_copy_wait(int groups)
{
    struct copies *copies = copies_of(lane_now());
    copies_finish(copies, copies->groups - groups);
}

void copies_check_end(const struct lane *lane)
{
    if (lane->copies && lane->copies->n)
        emulated_fault("the lane ends without waiting for %d of its copies", lane->copies->n);
}
