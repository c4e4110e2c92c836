/* The objects that a context was prepared with: models as units, loaders, schedulers. They belong
 * to the program; wk_close makes them unprepared again. Owned by the program's thread.
 */
#ifndef STEP_PREPARED_H
#define STEP_PREPARED_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/data/loader.h"
#include "libworker/optim/schedule.h"
#include "libworker/step/unit.h"

struct prepared {
    struct unit units[NUMBERS_UNITS_MAX]; /* [n_units], in the order of models */
    int n_units;
    char *configs[NUMBERS_UNITS_MAX]; /* config.json of each model, for checkpoints; or NULL */
    struct wk_loader *loaders[NUMBERS_LOADERS_MAX];
    int n_loaders;
    struct wk_scheduler *schedulers[NUMBERS_SCHEDULERS_MAX];
    int n_schedulers;
    bool ready;    /* they have their memory */
    bool compared; /* with those of other ranks, once */
};

#define units_each(unit, ctx)                                                                      \
    for ((unit) = (ctx)->prepared.units; (unit) < (ctx)->prepared.units + (ctx)->prepared.n_units; \
         (unit)++)

/* For messages: 1 for the first prepared model. In names of metrics: "" for the only one. */
int unit_number(const struct unit *unit);

/* The unit that represents the context in reports: the first with an optimizer, else the first;
 * NULL without any. */
struct unit *units_main(struct wk_context *ctx);

/* True if a window is open. */
bool units_open(const struct wk_context *ctx);

/* Windows of all units since the first step: all that were closed, and those with an update. The
 * member with more windows is further; equal numbers mean equal parameters.
 */
struct units_count {
    int64_t windows, taken;
};
struct units_count units_count(const struct wk_context *ctx);

/* strategy.h's functions of the same name, for all units in order. They do nothing before the units
 * are bound. err has the sentence. */
int units_meet(struct wk_context *ctx, struct error *err);
int units_regroup(struct wk_context *ctx, const struct layout *layout, struct error *err);
int units_refresh(struct wk_context *ctx, struct error *err);
int units_fill(struct wk_context *ctx, struct error *err);
void units_settle(struct wk_context *ctx);
void units_leave(struct wk_context *ctx);
void units_drain(struct wk_context *ctx);

/* Update the bound pointers of programs to the present addresses of parameters. */
void units_show_bound(struct wk_context *ctx);

/* This rank has `share` of the next passes' data. Passes that return means over their share are
 * multiplied by it. */
void units_share(struct wk_context *ctx, double share);

/* The sentence of the failed communicator or group; "" without a failure. */
const char *units_sentence(const struct wk_context *ctx);

#endif
