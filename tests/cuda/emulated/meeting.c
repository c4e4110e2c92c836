#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/cuda/emulated/block.h"

static int lane_of_warp(const struct lane *lane)
{
    return lane->view.number % EMULATED_WARP;
}

static int warp_of(const struct lane *lane)
{
    return lane->view.number / EMULATED_WARP;
}

/* Lane `i` of the same warp; NULL if the block has none. */
static struct lane *neighbour(const struct lane *lane, int i)
{
    struct emulated_block *block = lane->view.block;
    int number = warp_of(lane) * EMULATED_WARP + i;
    return number < block->n_lanes ? &block->lanes[number] : NULL;
}

static void check_mine(const struct lane *lane, const struct emulated_place *place, unsigned mask)
{
    if (!(mask >> lane_of_warp(lane) & 1))
        emulated_fault("%s at %s:%d: the mask %#x leaves out lane %d, which calls it", place->what,
                       place->file, place->line, mask, lane_of_warp(lane));
}

/* By who comes first: a lane that ends later is found by meetings_check_end. */
static void check_mask(const struct lane *lane, const struct emulated_place *place, unsigned mask)
{
    for (int i = 0; i < EMULATED_WARP; i++) {
        const struct lane *other = neighbour(lane, i);
        if (mask >> i & 1 && (!other || other->state == LANE_DONE))
            emulated_fault("%s at %s:%d: the mask %#x names lane %d, which %s", place->what,
                           place->file, place->line, mask, i,
                           other ? "has ended" : "the block does not have");
    }
}

static struct emulated_meeting *meeting_new(struct emulated_block *block)
{
    struct emulated_meeting *m = block->unused;
    if (m)
        block->unused = m->next;
    else
        m = malloc(sizeof(*m));
    insist(m);
    m->came = 0;
    return m;
}

/* The meeting of this mask that lanes still come to. */
static struct emulated_meeting *meeting_find(struct lane *lane, const struct emulated_place *place,
                                             unsigned mask)
{
    struct emulated_block *block = lane->view.block;
    struct emulated_meeting **open = &block->open[warp_of(lane)];
    for (struct emulated_meeting *m = *open; m; m = m->next) {
        if (m->mask == mask && m->what != place->what && strcmp(m->what, place->what) != 0)
            emulated_fault("lane %d comes to %s at %s:%d while others of the mask %#x are at %s",
                           lane_of_warp(lane), place->what, place->file, place->line, mask,
                           m->what);
        if (m->mask == mask)
            return m;
    }
    check_mask(lane, place, mask);
    struct emulated_meeting *m = meeting_new(block);
    m->mask = mask;
    m->what = place->what;
    m->next = *open;
    *open = m;
    return m;
}

static void meeting_complete(struct lane *lane, struct emulated_meeting *m)
{
    struct emulated_meeting **at = &lane->view.block->open[warp_of(lane)];
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    m->readers = __builtin_popcount(m->mask);
    for (int i = 0; i < EMULATED_WARP; i++) {
        struct lane *other = m->mask >> i & 1 ? neighbour(lane, i) : NULL;
        if (other && other != lane)
            lane_ready(other);
    }
}

struct emulated_meeting *emulated_meet(const struct emulated_place *place, unsigned mask,
                                       const struct emulated_words *words)
{
    struct lane *lane = lane_now();
    check_mine(lane, place, mask);
    struct emulated_meeting *m = meeting_find(lane, place, mask);
    m->brought[lane_of_warp(lane)] = *words;
    m->came |= 1u << lane_of_warp(lane);
    emulated_tsan_release(m);
    lane->place = *place;
    if (m->came == mask)
        meeting_complete(lane, m);
    else
        lane_wait(lane, LANE_WARP, place);
    emulated_tsan_acquire(m);
    return m;
}

void emulated_brought(const struct emulated_meeting *meeting, int lane,
                      struct emulated_words *ret_words)
{
    const struct lane *reader = lane_now();
    if (lane < 0 || lane >= EMULATED_WARP || !(meeting->mask >> lane & 1))
        emulated_fault("%s at %s:%d: lane %d reads lane %d, which the mask %#x leaves out",
                       meeting->what, reader->place.file, reader->place.line, lane_of_warp(reader),
                       lane, meeting->mask);
    *ret_words = meeting->brought[lane];
}

void emulated_leave(struct emulated_meeting *meeting)
{
    struct emulated_block *block = lane_now()->view.block;
    if (--meeting->readers)
        return;
    if (EMULATED_TSAN) { /* an address orders whoever used it before */
        free(meeting);
        return;
    }
    meeting->next = block->unused;
    block->unused = meeting;
}

void meetings_check_end(const struct lane *lane)
{
    const struct emulated_block *block = lane->view.block;
    for (const struct emulated_meeting *m = block->open[warp_of(lane)]; m; m = m->next) {
        if (m->mask >> lane_of_warp(lane) & 1)
            emulated_fault("the lane ends while others of the mask %#x wait for it at %s", m->mask,
                           m->what);
    }
    const struct lane *other = block->n_waiting ? block->first_waiting : NULL;
    if (other)
        emulated_fault("the lane ends while thread (%u, %u, %u) waits for it at %s of %s:%d",
                       other->view.thread.x, other->view.thread.y, other->view.thread.z,
                       other->place.what, other->place.file, other->place.line);
}

/* All lanes come to one barrier, not to one each on two ways. */
static void check_barrier(const struct lane *lane, const struct emulated_place *place)
{
    const struct emulated_block *block = lane->view.block;
    if (block->n_done)
        emulated_fault("%s at %s:%d: %d of the block's threads have ended", place->what,
                       place->file, place->line, block->n_done);
    const struct lane *other = block->n_waiting ? block->first_waiting : NULL;
    if (other && (other->place.line != place->line || strcmp(other->place.file, place->file) != 0))
        emulated_fault("%s at %s:%d: thread (%u, %u, %u) waits at %s of %s:%d", place->what,
                       place->file, place->line, other->view.thread.x, other->view.thread.y,
                       other->view.thread.z, other->place.what, other->place.file,
                       other->place.line);
}

static void barrier_complete(struct emulated_block *block, const struct lane *last)
{
    block->verdict = block->votes;
    block->votes = 0;
    block->n_waiting = 0;
    block->barriers++;
    for (int i = 0; i < block->n_lanes; i++) {
        if (&block->lanes[i] != last)
            lane_ready(&block->lanes[i]);
    }
}

int emulated_barrier(const struct emulated_place *place, bool vote)
{
    struct lane *lane = lane_now();
    struct emulated_block *block = lane->view.block;
    check_barrier(lane, place);
    void *sync = &block->barrier_sync[block->barriers % BARRIER_SYNCS];
    emulated_tsan_release(sync);
    if (vote)
        block->votes++;
    if (!block->n_waiting)
        block->first_waiting = lane;
    if (++block->n_waiting == block->n_lanes)
        barrier_complete(block, lane);
    else
        lane_wait(lane, LANE_BARRIER, place);
    emulated_tsan_acquire(sync);
    return block->verdict;
}
