/* The events between two steps: stop requests, new generations, checkpoints, the end. Owned by the
 * program's thread. */
#ifndef STEP_BOUNDARY_H
#define STEP_BOUNDARY_H

#include <stdbool.h>

struct wk_context;

/* How far the program's loop is. */
struct loop {
    bool ended;     /* wk_next has returned false for the last time */
    bool cut_short; /* an evaluation was cut short, on all ranks, since the last training batch */
    bool triggered; /* wk_trigger was called on this rank since the last check */
    bool all_triggered; /* wk_triggered was true, and so on all ranks, since wk_next */
};

/* Before a training batch of `source` (window.h) is dealt. True: deal one, in whichever step it
 * belongs to. */
bool boundary_pass(struct wk_context *ctx, int source);

/* There is no more data: write the last checkpoint and wait for all ranks. False: the generation
 * broke, so boundary_pass must be called again, or the error is sticky. */
bool boundary_end(struct wk_context *ctx);

/* True if evaluation may continue. False if the other ranks wait for this one in a newer
 * generation, or in order to stop. Sharded: collective. */
bool boundary_evaluates(struct wk_context *ctx);

#endif
