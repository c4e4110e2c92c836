/* A training of processes whose devices have collectives of their own (own_wire.h), as
 * test_wires.c and tests/cuda/test_nccl_memory.c run it. CHECK ends the program. */
#ifndef TRAIN_WIRES_RUN_H
#define TRAIN_WIRES_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/own_wire.h"

enum { WORKERS_MAX = 4, STEPS = 6, LONG_STEPS = 12, KILL_AT = 4, WEIGHTS_MAX = 1 << 16 };

extern const char *const strategies[4];

enum trains { ON_CPU, STAGED, OWN };
enum mistake { NONE, PASSES_DO_NOT_WAIT, COLLECTIVES_DO_NOT_WAIT, MISTAKES };

struct run {
    const char *strategy, *precision, *low_gradients, *accumulation, *masters, *hook, *replicas,
        *sums;
    const char *steps, *dir, *timeout, *collectives, *between;
    int per_host;                   /* ranks on a host; 0: all on one */
    const struct graph_kind *graph; /* NULL: the GPT */
    int ranks;
    uint64_t seed;
    enum trains on;
    enum own_wires_fault fault; /* of the last rank that is not killed */
    enum mistake mistake;
    bool counts; /* the waits of each step */
    bool kills;  /* the last rank, after KILL_AT steps */
    bool late;   /* kills it in the next step: the others have enqueued their update */
    bool alone;  /* without a session */
    bool leaves; /* the last rank, there; the others then wait in a forward pass */
};

struct told {
    double losses[LONG_STEPS + 1];
    float norms[LONG_STEPS + 1];
    float weights[WEIGHTS_MAX];
    int status, counted;
    uint64_t generation; /* the last one */
    char notices[4096], finding[REHEARSAL_SENTENCE_MAX];
};

/* What the processes share. */
extern struct scene {
    struct fake_cluster cluster;
    struct told told[WORKERS_MAX];
    _Atomic long long killed_ms;
    _Atomic int have_stepped; /* ranks with KILL_AT steps behind them */
} * scene;
extern struct own_wires *wires;

void scene_new(void); /* once, before a run */

/* Begin the run's processes, and return when they have ended. True: a mistake was found. */
bool play(const struct run *run);

/* Likewise, and all ranks end well but the one that was killed. */
void play_well(const struct run *run);

void check_same(const struct told *a, const struct told *b);

/* On the CPU, then by own collectives. */
void same_bits(const struct run *run);

#endif
