/* What the launches of a plan need of its device's kernels (device/device.h). One thread. */
#ifndef GRAPH_NEEDS_H
#define GRAPH_NEEDS_H

#include "libworker/graph/plan.h"

/* Bytes of scratch memory of a launch, by the kernel that will run. */
size_t needs_scratch(const struct plan *plan, const struct launch *launch);

/* WK_EUNSUPPORTED, with a sentence, if the device has no kernel for a launch. */
int needs_check(const struct plan *plan, struct error *err);

#endif
