/* The time of a step by phase, and a Chrome trace of it (chrome://tracing, ui.perfetto.dev; format:
 * "Trace Event Format", complete events). Owned by the context; one thread. Phases do not overlap:
 * an inner phase is subtracted from the outer one. Phases and the time between them add up to the
 * step, which lasts from the end of the one before (the first from its first phase). */
#ifndef TRACK_PROFILE_H
#define TRACK_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"

#define PROFILE_PHASES(X)                                                                          \
    X(DATA, "data")                                                                                \
    X(FORWARD, "forward")                                                                          \
    X(BACKWARD, "backward")                                                                        \
    X(EXPOSED, "exposed_communication") /* waiting for others with nothing left to compute */      \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(CHECKPOINT, "checkpoint")

enum profile_phase {
#define X(id, name) PROFILE_##id,
    PROFILE_PHASES(X)
#undef X
        PROFILE_COUNT
};

enum { PROFILE_NESTED_MAX = 4, PROFILE_TRACE_EVENTS_MAX = 100000 };

const char *profile_name(enum profile_phase phase);

struct profile {
    double seconds[PROFILE_COUNT], step_seconds; /* of completed steps, since profile_take */
    double pending[PROFILE_COUNT];               /* of the step being worked on */
    int64_t steps;                               /* since profile_take */
    double all_seconds, exposed_seconds;         /* of all completed steps, and of their EXPOSED */
    int64_t step_begun_ns;                       /* 0: no phase has begun yet */
    struct {
        enum profile_phase phase;
        int64_t begun_ns, inner_ns;
    } open[PROFILE_NESTED_MAX];
    int depth;
    FILE *trace; /* NULL: none */
    int rank;
    int64_t step; /* being worked on, for the trace */
    int64_t events;
};

void profile_init(struct profile *profile);
void profile_fini(struct profile *profile); /* ends the trace file; zeroed memory is allowed */

/* Write a trace of this rank from now on: a new one, or with `goes_on` after another process's
 * events in the file, from which an incomplete one is removed. `path` "" writes none. WK_EIO and
 * similar codes. */
int profile_trace(struct profile *profile, const char *path, int rank, bool goes_on,
                  struct error *err);
void profile_end_trace(struct profile *profile); /* the file is whole then */

void profile_begin(struct profile *profile, enum profile_phase phase);
void profile_end(struct profile *profile); /* the innermost */
/* A step is over, with no phase open; `next` is the one that begins. */
void profile_step(struct profile *profile, int64_t next);

/* Mean seconds per step of the steps since the last call: of each phase, of the time outside (the
 * program's own work, checkpoints waiting, logging), and of all of it. */
struct profile_means {
    double phase[PROFILE_COUNT], other, step;
};
void profile_take(struct profile *profile, struct profile_means *ret);

#endif
