/* How a generation ends: a peer is lost, a newer one is announced, or the context closes. Owned by
 * the program's thread. */
#ifndef STEP_BREAK_H
#define STEP_BREAK_H

#include "common/base/error.h"

struct wk_context;

/* What `code` follows from. Groups of ranks and the device's collectives are aborted where the
 * communicator of all ranks has failed: then it is that one's code. Others stay. */
int context_cause(const struct wk_context *ctx, int code);

/* A collective failed with `code`, or the generation is over: abort, and roll the step in progress
 * back. An error that no new generation can cure becomes sticky. Returns 0, or the sticky error. */
int context_break(struct wk_context *ctx, int code);

/* The result of a call that made a collective with result `rc`: 0 does nothing, others break. */
int context_result(struct wk_context *ctx, int rc);

/* The same for the result of a pass, in which gathers of blocks can fail like any collective; other
 * failures are misuse. 0 remains 0. */
int context_pass_failed(struct wk_context *ctx, int rc, const struct error *err);

/* Close the communicator. */
void context_leave(struct wk_context *ctx);

/* Inform the session which ranks the present communicator has lost. */
void context_report_lost(struct wk_context *ctx);

#endif
