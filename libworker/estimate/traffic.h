/* What a pass makes a device do: kernels, bytes read and written, FLOP, by operation. Counted from
 * the plan, without running it. Each tensor of a launch counts once, and what a device's kernels
 * say that they move besides (device/kernels.h). Caches are not known: what two kernels read counts
 * twice. Pure.
 */
#ifndef ESTIMATE_TRAFFIC_H
#define ESTIMATE_TRAFFIC_H

#include "libworker/graph/plan.h"

enum { TRAFFIC_ROWS_MAX = 128 };

struct traffic_row {
    const char *name; /* of the operation, or of what is no operation; static */
    bool backward;
    int launches; /* of kernels */
    double read, written, flop;
};

struct traffic {
    struct traffic_row rows[TRAFFIC_ROWS_MAX]; /* in the order of their first launches */
    int n;
    struct traffic_row together;
};

void traffic_count(const struct plan *plan, struct traffic *ret);

#endif
