#include "tests/cuda/emulated/block.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/cuda/emulated/emulated.h"

__thread struct emulated_lane *emulated_now;

/* What a thread keeps between launches. */
struct emulator {
    struct emulated_block block;
    emulated_hook_fn *hook;
    void *hook_arg;
    uint64_t launches;
    bool busy;
};

static pthread_key_t emulator_key;
static pthread_once_t emulator_once = PTHREAD_ONCE_INIT;

static void block_free(struct emulated_block *block)
{
    shared_free(block);
    for (int i = 0; i < block->n_fibers; i++)
        emulated_fiber_free(block->fibers[i]);
    while (block->unused) {
        struct emulated_meeting *meeting = block->unused;
        block->unused = meeting->next;
        free(meeting);
    }
    for (int i = 0; i < LANES_MAX; i++)
        free(block->lanes[i].copies);
}

static void emulator_free(void *arg)
{
    struct emulator *e = arg;
    block_free(&e->block);
    free(e);
}

static void free_mine(void)
{
    struct emulator *e = pthread_getspecific(emulator_key);
    if (e)
        emulator_free(e);
    (void)pthread_setspecific(emulator_key, NULL);
}

static void key_new(void)
{
    insist(pthread_key_create(&emulator_key, emulator_free) == 0);
    insist(atexit(free_mine) == 0);
}

static struct emulator *emulator_mine(void)
{
    (void)pthread_once(&emulator_once, key_new);
    struct emulator *e = pthread_getspecific(emulator_key);
    if (e)
        return e;
    e = calloc(1, sizeof(*e));
    insist(e && pthread_setspecific(emulator_key, e) == 0);
    e->block.random = 1;
    return e;
}

void emulated_set_seed(uint64_t seed)
{
    emulator_mine()->block.random = seed;
}

void emulated_set_hook(emulated_hook_fn *hook, void *arg)
{
    struct emulator *e = emulator_mine();
    e->hook = hook;
    e->hook_arg = arg;
}

uint64_t emulated_launches(void)
{
    return emulator_mine()->launches;
}

void emulated_launch_add(void *stream, struct emulated_launch *launch)
{
    struct emulator *e = emulator_mine();
    e->launches++;
    if (e->hook) {
        e->hook(e->hook_arg, stream, *launch);
        return;
    }
    launch->run(launch);
    launch->free(launch);
}

/* SplitMix64 (Steele et al. 2014). */
uint64_t block_random(struct emulated_block *block, uint64_t below)
{
    uint64_t x = block->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

struct lane *lane_now(void)
{
    return (struct lane *)emulated_now;
}

void emulated_fault(const char *fmt, ...)
{
    const struct emulated_lane *lane = emulated_now;
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "emulated: ");
    if (lane)
        fprintf(stderr, "%s, block (%u, %u, %u), thread (%u, %u, %u): ", lane->grid->kernel,
                lane->block_index.x, lane->block_index.y, lane->block_index.z, lane->thread.x,
                lane->thread.y, lane->thread.z);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

void lane_ready(struct lane *lane)
{
    struct emulated_block *block = lane->view.block;
    lane->state = LANE_READY;
    block->ready[block->n_ready++] = lane;
}

void lane_wait(struct lane *lane, enum lane_state state, const struct emulated_place *place)
{
    lane->state = state;
    lane->place = *place;
    emulated_fiber_pause(lane->fiber);
    emulated_now = &lane->view;
}

/* A lane from its first statement to its last, on the stack that has just become free. */
static void lane_run(struct emulated_block *block, struct emulated_fiber *fiber, struct lane *lane)
{
    lane->state = LANE_RUNS;
    lane->fiber = fiber;
    emulated_now = &lane->view;
    emulated_tsan_acquire(&block->begin_sync);
    block->grid->body(block->grid->closure);
    emulated_tsan_release(&block->end_sync);
    meetings_check_end(lane);
    copies_check_end(lane);
    lane->state = LANE_DONE;
    block->n_done++;
    emulated_now = NULL;
}

/* A stack runs lanes one after another; one that waits keeps it. ThreadSanitizer wants a stack for
 * each lane, as it takes memory used twice for a race. */
static void fiber_run(void *arg)
{
    struct emulated_block *block = arg;
    for (;;) {
        struct emulated_fiber *own = block->starting;
        do
            lane_run(block, own, &block->lanes[block->order[block->n_started++]]);
        while (!EMULATED_TSAN && block->n_started < block->n_lanes);
        if (!EMULATED_TSAN)
            block->fibers[block->n_fibers++] = own;
        emulated_fiber_pause(own);
    }
}

static void lane_resume(struct lane *lane)
{
    struct emulated_fiber *fiber = lane->fiber;
    emulated_fiber_resume(fiber, lane->tsan);
    emulated_now = NULL;
    if (!EMULATED_TSAN || lane->state != LANE_DONE)
        return;
    emulated_fiber_free(fiber);
    emulated_tsan_free(lane->tsan);
}

static void lanes_begin(struct emulated_block *block)
{
    struct lane *lane = &block->lanes[block->order[block->n_started]];
    lane->fiber =
        block->n_fibers ? block->fibers[--block->n_fibers] : emulated_fiber_new(fiber_run, block);
    lane->tsan = emulated_tsan_new();
    block->starting = lane->fiber;
    lane_resume(lane);
}

static void ready_resume(struct emulated_block *block)
{
    int i = (int)block_random(block, (uint64_t)block->n_ready);
    struct lane *lane = block->ready[i];
    block->ready[i] = block->ready[--block->n_ready];
    lane->state = LANE_RUNS;
    lane_resume(lane);
}

/* All lanes wait, each for another. */
static void stuck(const struct emulated_block *block)
{
    const struct lane *lane = block->lanes, *other = NULL;
    while (lane->state != LANE_WARP)
        lane++;
    const struct emulated_meeting *m = block->open[lane->view.number / EMULATED_WARP];
    while (!(m->came >> lane->view.number % EMULATED_WARP & 1))
        m = m->next;
    int missing = __builtin_ctz(m->mask & ~m->came);
    other = &block->lanes[lane->view.number / EMULATED_WARP * EMULATED_WARP + missing];
    emulated_now = (struct emulated_lane *)(uintptr_t)&lane->view;
    emulated_fault("waits at %s of %s:%d with the mask %#x for lane %d, which waits at %s of %s:%d",
                   lane->place.what, lane->place.file, lane->place.line, m->mask, missing,
                   other->place.what, other->place.file, other->place.line);
}

static void shuffle(struct emulated_block *block, int *values, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)block_random(block, (uint64_t)i + 1), kept = values[i];
        values[i] = values[k];
        values[k] = kept;
    }
}

/* Warps in any order, and the lanes of each. */
static void order_set(struct emulated_block *block)
{
    int warps[WARPS_MAX], n_warps = (block->n_lanes + EMULATED_WARP - 1) / EMULATED_WARP, n = 0;
    for (int i = 0; i < n_warps; i++)
        warps[i] = i;
    shuffle(block, warps, n_warps);
    for (int i = 0; i < n_warps; i++) {
        int first = n;
        for (int k = 0; k < EMULATED_WARP; k++) {
            int number = warps[i] * EMULATED_WARP + k;
            if (number < block->n_lanes)
                block->order[n++] = number;
        }
        shuffle(block, block->order + first, n - first);
    }
}

static void lanes_set(struct emulated_block *block, struct emulated_index index)
{
    const struct emulated_index *size = &block->grid->block;
    struct emulated_index at = {0};
    for (int i = 0; i < block->n_lanes; i++) {
        struct lane *lane = &block->lanes[i];
        lane->view = (struct emulated_lane){at, index, block->grid, block, i};
        lane->state = LANE_NEW;
        lane->fiber = NULL;
        if (++at.x == size->x) {
            at.x = 0;
            at.y++;
        }
        if (at.y == size->y) {
            at.y = 0;
            at.z++;
        }
    }
}

static void block_run(struct emulated_block *block, struct emulated_index index)
{
    lanes_set(block, index);
    order_set(block);
    shared_begin(block);
    block->n_started = block->n_done = block->n_ready = block->n_waiting = block->votes = 0;
    while (block->n_done < block->n_lanes) {
        bool more = block->n_started < block->n_lanes;
        if (block->n_ready && (!more || block_random(block, 2)))
            ready_resume(block);
        else if (more)
            lanes_begin(block);
        else
            stuck(block);
    }
    shared_check(block);
}

static void check_size(const struct emulated_grid *grid)
{
    const struct emulated_index *g = &grid->grid, *b = &grid->block;
    if (!g->x || !g->y || !g->z || !b->x || !b->y || !b->z)
        emulated_fault("%s: a launch of nothing: a grid of (%u, %u, %u), blocks of (%u, %u, %u)",
                       grid->kernel, g->x, g->y, g->z, b->x, b->y, b->z);
    if (g->x > INT32_MAX || g->y > 65535 || g->z > 65535)
        emulated_fault("%s: a grid of (%u, %u, %u); at most (2147483647, 65535, 65535)",
                       grid->kernel, g->x, g->y, g->z);
    if (b->x > LANES_MAX || b->y > LANES_MAX || b->z > 64 ||
        (uint64_t)b->x * b->y * b->z > LANES_MAX)
        emulated_fault("%s: blocks of (%u, %u, %u); at most (1024, 1024, 64) and 1024 threads",
                       grid->kernel, b->x, b->y, b->z);
    if (grid->shared_bytes > SHARED_MAX_BYTES)
        emulated_fault("%s: %zu bytes of shared memory; at most %d", grid->kernel,
                       grid->shared_bytes, SHARED_MAX_BYTES);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Each block once, in steps that have no divisor in common with their number. */
static void blocks_run(struct emulated_block *block, const struct emulated_index *size)
{
    uint64_t n = (uint64_t)size->x * size->y * size->z, at = block_random(block, n), step = 1;
    do
        step = 1 + block_random(block, n);
    while (common_divisor(step, n) != 1);
    for (uint64_t i = 0; i < n; i++) {
        struct emulated_index index = {(unsigned)(at % size->x), (unsigned)(at / size->x % size->y),
                                       (unsigned)(at / size->x / size->y)};
        block_run(block, index);
        at = (at + step) % n;
    }
}

void emulated_run(const struct emulated_grid *grid)
{
    struct emulator *e = emulator_mine();
    struct emulated_block *block = &e->block;
    insist(!e->busy); /* a kernel launches none */
    e->busy = true;
    check_size(grid);
    block->grid = grid;
    block->n_lanes = (int)(grid->block.x * grid->block.y * grid->block.z);
    emulated_tsan_release(&block->begin_sync);
    blocks_run(block, &grid->grid);
    emulated_tsan_acquire(&block->end_sync);
    shared_free(block);
    e->busy = false;
}
