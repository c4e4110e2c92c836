#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/reason.h"

enum { WALL_START_MS = 1700000000 };

struct happening {
    struct heap_node node;
    happening_fn fn;
    void *arg;
};

static const int64_t wall_start_ms = (int64_t)WALL_START_MS * 1000;

void world_init(struct world *world, uint64_t seed, bool trace)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->trace = trace;
    world->now_ms = 1000000; /* a machine that has been up for a while */
    world->delay_max_ms = 3;
    world->next_peer = 1;
    world->digest = UINT64_C(1469598103934665603); /* FNV-1a */
    rng_seed(&world->rng, seed);
    rng_fork(&world->rng, &world->net_rng);
}

void world_fini(struct world *world)
{
    for (struct heap_node *node; (node = heap_pop(&world->queue));)
        free(heap_entry(node, struct happening, node));
    heap_fini(&world->queue);
    for (struct program *p = world->programs, *next; p; p = next) {
        next = p->next;
        loop_free(p->loop);
        free(p);
    }
    sim_net_fini(world);
    sim_disk_fini(world);
}

void world_at(struct world *world, int64_t at_ms, happening_fn fn, void *arg)
{
    struct happening *happening = calloc(1, sizeof(*happening));
    insist(happening);
    happening->node.key = at_ms > world->now_ms ? at_ms : world->now_ms;
    happening->node.sequence = ++world->sequence;
    happening->fn = fn;
    happening->arg = arg;
    insist(heap_push(&world->queue, &happening->node) == 0);
}

bool world_step(struct world *world, int64_t until_ms)
{
    struct heap_node *first = heap_peek(&world->queue);
    if (!first || first->key > until_ms) {
        world->now_ms = until_ms;
        return false;
    }
    heap_pop(&world->queue);
    struct happening happening = *heap_entry(first, struct happening, node);
    free(heap_entry(first, struct happening, node));
    world->now_ms = happening.node.key;
    world->happenings++;
    happening.fn(world, happening.arg);
    return true;
}

/* Names of jobs in reasons stand between marks. */
static void show_names(char *line, size_t size)
{
    struct buf shown;
    buf_init(&shown, size);
    reason_show(line, NULL, "", &shown);
    (void)str_copy(line, size, buf_cstr(&shown));
    buf_fini(&shown);
}

void world_note(struct world *world, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    show_names(line, sizeof(line));
    for (const char *c = line; *c; c++)
        world->digest = (world->digest ^ (unsigned char)*c) * UINT64_C(1099511628211);
    world->digest = (world->digest ^ (uint64_t)world->now_ms) * UINT64_C(1099511628211);
    if (world->trace)
        (void)fprintf(stdout, "%9.3f %s\n", (double)(world->now_ms - 1000000) / 1000, line);
}

void world_fail(struct world *world, const char *fmt, ...)
{
    char line[900];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    show_names(line, sizeof(line));
    (void)snprintf(world->failure, sizeof(world->failure), "at %.3f s: %s",
                   (double)(world->now_ms - 1000000) / 1000, line);
    longjmp(*world->give_up, 1);
}

static int64_t clock_now(void *self)
{
    return ((struct program *)self)->world->now_ms;
}

static int64_t clock_wall(void *self)
{
    const struct program *program = self;
    /* Machines disagree a little, and jump. */
    int64_t skew_ms = program->machine * 7 + program->world->wall_skew_ms[program->machine];
    return wall_start_ms + program->world->now_ms + skew_ms;
}

static void rng_source_fill(void *self, void *ret_bytes, size_t count)
{
    rng_fill(&((struct program *)self)->rng, ret_bytes, count);
}

struct program *program_start(struct world *world, const char *name, int machine)
{
    struct program *program = calloc(1, sizeof(*program));
    insist(program);
    program->world = world;
    program->machine = machine;
    program->alive = true;
    program->wake_ms = INT64_MAX;
    (void)str_copy(program->name, sizeof(program->name), name);
    rng_fork(&world->rng, &program->rng);
    program->env.clock = (struct clock){program, clock_now, clock_wall};
    program->env.rng = (struct rng_source){program, rng_source_fill};
    program->env.net = sim_net(program);
    program->env.disk = sim_disk(program);
    insist(loop_new_simulated(program->env.clock, &program->loop, NULL) == 0);
    program->next = world->programs;
    world->programs = program;
    return program;
}

void program_end(struct program *program, bool sudden)
{
    if (!program->alive)
        return;
    program->alive = false;
    sim_net_program_ended(program, sudden);
    loop_free(program->loop);
    program->loop = NULL;
}

static void turn(struct world *world, void *arg)
{
    struct program *program = arg;
    if (!program->alive || program->wake_ms > world->now_ms)
        return; /* ended, or another turn came first */
    program->wake_ms = INT64_MAX;
    program_run(program);
}

void program_run(struct program *program)
{
    struct world *world = program->world;
    if (!program->alive || program->running)
        return;
    if (program->stalled_until_ms > world->now_ms) {
        if (program->stalled_until_ms < program->wake_ms) {
            program->wake_ms = program->stalled_until_ms;
            world_at(world, program->wake_ms, turn, program);
        }
        return;
    }
    program->running = true;
    int64_t next_ms = loop_turn(program->loop);
    program->running = false;
    if (next_ms <= world->now_ms)
        next_ms = world->now_ms + 1;
    if (next_ms != INT64_MAX && next_ms < program->wake_ms) {
        program->wake_ms = next_ms;
        world_at(world, next_ms, turn, program);
    }
    if (program->after_turn)
        program->after_turn(program);
}

void program_post(struct program *program, loop_fn fn, void *arg)
{
    if (!program->alive)
        return;
    loop_post(program->loop, fn, arg);
    program_run(program);
}
