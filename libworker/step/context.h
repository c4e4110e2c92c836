/* The context connects settings, place, communicator, prepared objects and the step in progress.
 * Private to step/ (tests open contexts with their own seams).
 *
 * Each member has an owner: the file of its name, with a header that has its rules. A file calls
 * files below it, and none of those calls it back (tools/calls.py):
 *
 *   the program's calls   open, objects, owned_new, prepare, next, join, pass, train_step, metrics,
 *                         ranks, weights, find_batch; memory_budget
 *   between two steps     boundary; departure, generation; prepare_objects
 *   one state for all     agree_state, agree_shards; hand_off, member; agree_config, agree_kernels,
 *                         agree_model, agree_memory
 *   a window is counted   counts
 *   a generation ends     gather, break
 *   a step                window; save, report, state, stop
 *   what there is         bind; compute, owned, prepared, unit, sums, mixed, cut, shards,
 *                         membership; failure, notice, phase, clock, signal
 *
 * Models are units (unit.h), each with its own window of gradients. Parameters and optimizer state
 * change only in wk_step, one unit at a time, after that unit's sums are complete on this rank. The
 * state is therefore always that of the last completed step, plus the windows of the step in
 * progress that unit->numbers counts. Checkpoints contain exactly this, and members compare it.
 *
 * A broken step begins again with its batch. Windows of it that are already in the state are left
 * out (window.h). Members may differ by some windows: reform brings all to the furthest one.
 *
 * Owned by the program's thread. Other threads use only what its owner permits: the session's
 * thread aborts the communicator (membership.h), the saver's thread reports (save.h, notice.h).
 */
#ifndef STEP_CONTEXT_H
#define STEP_CONTEXT_H

#include <worker/worker.h>

#include "libworker/config/place.h"
#include "libworker/config/settings.h"
#include "libworker/session/session.h"
#include "libworker/step/agree_kernels.h"
#include "libworker/step/boundary.h"
#include "libworker/step/compute.h"
#include "libworker/step/cut.h"
#include "libworker/step/failure.h"
#include "libworker/step/membership.h"
#include "libworker/step/mixed.h"
#include "libworker/step/notice.h"
#include "libworker/step/owned.h"
#include "libworker/step/prepared.h"
#include "libworker/step/report.h"
#include "libworker/step/save.h"
#include "libworker/step/state.h"
#include "libworker/step/stop.h"
#include "libworker/step/window.h"

struct wk_context {
    /* From wk_open on. */
    struct settings settings;
    struct place place;
    struct session *session; /* NULL outside Muster */
    struct notices notices;
    struct failure failure;
    struct membership group;
    struct kernels kernels;
    struct compute compute;
    struct stop stop;
    struct saving saving;
    struct reports reports;
    struct owned owned;

    /* From wk_prepare on. */
    struct prepared prepared;
    struct mixed mixed;
    struct cut cut;
    struct state state;
    struct step_progress step;
    struct loop loop;
};

/* Replacements for the outside world in tests. */
struct context_seams {
    const struct environment *environment;
    struct session
        *session; /* owned by the context from the call on, also on failure; may be NULL */
    bool quiet;   /* no progress lines, and notices only to the program */
    const struct kernel_table *kernels; /* replaces the best of this machine; or NULL */
    struct device *device; /* replaces the CPU; the caller's, freed after the context; or NULL */
};
int context_open(const struct wk_options *options, const struct context_seams *seams,
                 struct wk_context **ret_ctx);

/* True if the program's calls do nothing until it asks for the next batch. */
static inline bool context_rests(const struct wk_context *ctx)
{
    return phase_rests(ctx->step.phase);
}

/* True if they do nothing: that, or the error is sticky. */
static inline bool context_idle(const struct wk_context *ctx)
{
    return ctx->failure.sticky.code || context_rests(ctx);
}

/* After wk_next or wk_join has ended there are no more steps; evaluations continue. */
static inline bool context_trains(const struct wk_context *ctx)
{
    return !context_idle(ctx) && !ctx->loop.ended;
}

#endif
