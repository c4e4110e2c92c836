/* What a step makes a device do: kernels, bytes read and written, FLOP, by operation. A pass is
 * counted from its plan, and the update by the code that enqueues it; neither is run. Each tensor
 * of a launch counts once, and what a device's kernels move besides
 * (device/kernels.h). Caches are not known: what two kernels read counts twice. Any thread.
 */
#ifndef ESTIMATE_TRAFFIC_H
#define ESTIMATE_TRAFFIC_H

#include "libworker/estimate/counter.h"
#include "libworker/graph/plan.h"
#include "libworker/optim/noted.h"

struct wk_model;
struct wk_optimizer;

enum { TRAFFIC_ROWS_MAX = 128 };

enum traffic_part { TRAFFIC_FORWARD, TRAFFIC_BACKWARD, TRAFFIC_UPDATE };

struct traffic_row {
    const char *name; /* of the operation, or of what is no operation; static */
    enum traffic_part part;
    int launches; /* of kernels */
    double read, written, flop;
};

struct traffic {
    struct traffic_row rows[TRAFFIC_ROWS_MAX]; /* in the order of their first launches */
    int n;
    struct traffic_row together;
    char update_graphs[NOTED_REASON_BYTES]; /* optim/noted.h; "": the update is not counted */
};

void traffic_count(const struct plan *plan, struct traffic *ret);

/* The end of a step under ddp on one rank: the loss, the gradients' norm and the clip by it. Then
 * the verdict on the step, the update, and gradients that are zero again. The loss scale is one of
 * the numbers. Parameters are those that the model trains. */
struct traffic_update {
    const struct wk_model *model;
    struct wk_optimizer *optimizer; /* with its groups, not prepared; borrowed */
    enum wk_dtype compute;          /* bf16 and f16: each update writes a copy, too */
    const struct device *device;    /* NULL: the host's */
    enum device_graphs graphs;      /* the setting compile; not of the host */
    void (*each)(void *arg, const struct counted *counted); /* in their order; may be NULL */
    void *arg;
};

/* Add it to the rows. WK_ENOMEM; WK_EUNSUPPORTED: the device lacks a kernel. FLOP of products are
 * not counted (Muon has some). */
int traffic_add_update(const struct traffic_update *update, struct traffic *traffic,
                       struct error *err);

#endif
