/* Which kernels a device chooses for the operations of a plan, where it has several for one
 * (device/kernels.h): each choice once, in the order of the launches. Pure; of a plan's thread. */
#ifndef GRAPH_CHOSEN_H
#define GRAPH_CHOSEN_H

#include "libworker/device/kernels.h"
#include "libworker/graph/plan.h"

enum { CHOSEN_MAX = 16 };

struct chosen_kernel {
    int launches; /* that it computes */
    char text[DEVICE_CHOSEN_BYTES];
};

struct chosen_kernels {
    struct chosen_kernel list[CHOSEN_MAX];
    int n; /* what is chosen beyond CHOSEN_MAX is left out */
};

void chosen_find(const struct plan *plan, struct chosen_kernels *ret);

#endif
