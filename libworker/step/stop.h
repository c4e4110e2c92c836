/* Requests to stop, and newer generations: what a rank knows, and what all ranks have agreed on
 * with the sums of a step (consensus.h). Owned by the program's thread; any thread may call
 * stop_requested.
 */
#ifndef STEP_STOP_H
#define STEP_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/step/consensus.h"

enum {
    STOP_GRACE_MS = 10000, /* after a stop signal without a grace time */
    STOP_WHY_MAX = 402,
};

struct wk_context;

/* What a step's sums announced for the boundary after it: all stop; or some stop, others leave. */
enum heard { HEARD_NOTHING, HEARD_STOP, HEARD_DEPARTURE };

struct stop {
    int signals_seen;      /* stop signals of the process before this context */
    int64_t half_grace_ms; /* when half of a stop's grace is over; 0 before a stop */
    enum heard heard;
};

/* This rank was asked to stop. */
bool stop_requested(struct wk_context *ctx);

/* ": " and why, or "" if it is not known: for the end of a sentence. */
void stop_why(struct wk_context *ctx, char ret[STOP_WHY_MAX + 1]);

/* The request cannot wait any longer: half of its grace is over. */
bool stop_presses(struct wk_context *ctx);

/* A newer generation is announced. */
bool stop_superseded(struct wk_context *ctx);

/* This rank's numbers for a step's sums; and the sums of all ranks. */
void stop_say(struct wk_context *ctx, struct consensus *said);
void stop_hear(struct wk_context *ctx, const struct consensus *sums);

#endif
