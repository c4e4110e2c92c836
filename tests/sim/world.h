/* The simulated world: virtual time, one queue of happenings, programs on machines, and everything
 * a seed decides. The same coordinator and agent objects as in production run in it; only env,
 * loop's clock and launcher are simulated. One world is one thread; nothing here reads the real
 * world.
 *
 * A failing check ends the world: `failure` says what and when; the seed says it again.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/rng.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

enum {
    SIM_LARGE_EVERY = 50,  /* so many seeds apart are the worlds with large gangs */
    SIM_MACHINES_MAX = 17, /* machine 0 holds the coordinator and the client */
    SIM_NODES_MAX = SIM_MACHINES_MAX - 1,
    SIM_JOBS_MAX = 30,
    SIM_TENANTS_MAX = 2,
    SIM_PROCESSES_MAX = 4096,
};

struct world;
struct stage;

/* One program: a loop, an env, a stream of random numbers. Freed with the world. */
struct program {
    struct world *world;
    char name[64];
    int machine;
    bool alive;
    bool running;        /* its loop turns right now */
    bool end_after_turn; /* it asked to end from inside */
    struct env env;
    struct loop *loop;
    struct rng rng;
    int64_t wake_ms;                             /* of the queued turn, INT64_MAX = none */
    int64_t stalled_until_ms;                    /* stopped, or waits for a disk: does nothing */
    void (*after_turn)(struct program *program); /* checks, or its own end */
    void *owner;
    struct program *next;
};

typedef void (*happening_fn)(struct world *world, void *arg);

struct world {
    uint64_t seed;
    struct rng rng; /* of faults and workload; networks and programs have their own */
    struct rng net_rng;
    int64_t now_ms;
    struct heap queue;
    uint64_t sequence;
    uint64_t happenings;
    bool trace;
    uint64_t digest; /* of all that was noted: equal seeds, equal digests */
    struct program *programs;
    /* the network */
    struct net_listener *listeners;
    struct net_dialer *dialers;
    uint64_t next_peer;
    double loss, duplicate, reorder;
    int delay_max_ms;
    bool cut[SIM_MACHINES_MAX][SIM_MACHINES_MAX];
    struct strmap files[SIM_MACHINES_MAX];  /* path -> struct sim_file */
    int64_t wall_skew_ms[SIM_MACHINES_MAX]; /* clocks jump */
    int64_t disk_fails_until_ms[SIM_MACHINES_MAX];
    struct stage *stage;
    char failure[1024]; /* "" = none */
    jmp_buf *give_up;
};

void world_init(struct world *world, uint64_t seed, bool trace);
void world_fini(struct world *world);

/* Call fn(arg) at a time; equal times in the order they were asked for. */
void world_at(struct world *world, int64_t at_ms, happening_fn fn, void *arg);
/* Let the next thing happen; false when nothing is left before `until_ms` (time is then there). */
bool world_step(struct world *world, int64_t until_ms);

/* A line of the trace; part of the digest. */
void world_note(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A check failed: remember why and stop the world (does not return). */
_Noreturn void world_fail(struct world *world, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

struct program *program_start(struct world *world, const char *name, int machine);
/* Its objects must be freed already; tells the network. `sudden`: the machine is gone with it, so
 * nobody is told. */
void program_end(struct program *program, bool sudden);
/* Run fn(arg) on its loop, then all that follows; nothing if it has ended. */
void program_post(struct program *program, loop_fn fn, void *arg);
void program_run(struct program *program);

/* net.c, disk.c */
struct net sim_net(struct program *program);
void sim_net_program_ended(struct program *program, bool sudden);
void sim_net_fini(struct world *world);
struct disk sim_disk(struct program *program);
void sim_disk_fini(struct world *world);
void sim_disk_crash(struct world *world, int machine); /* appended bytes may be lost */

#endif
