/* The parameters that took part in a window's backward passes, on all ranks. Each rank sums a one
 * with its gradients for every parameter that it announced, so all ranks get the same result. A
 * pass that announces nothing (an empty share, or a program without announcements) uses all. In
 * place; one thread. */
#ifndef PARALLEL_USAGE_H
#define PARALLEL_USAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct param;

struct usage {
    int n_params;
    float *used;     /* [usage_room], borrowed: summed over the ranks with the gradients */
    bool *announced; /* [n_params], in this pass */
    bool any;
};

/* Numbers summed with the gradients: one for each parameter, and one for ranks with a changed
 * graph. */
size_t usage_room(int n_params);

int usage_init(struct usage *usage, int n_params, float *used, struct error *err); /* WK_ENOMEM */
void usage_fini(struct usage *usage); /* zeroed memory is allowed */

void usage_begin(struct usage *usage);
void usage_note(struct usage *usage, int index);

/* The pass is over; `changed`: its announcements were not those that were promised. */
void usage_end(struct usage *usage, bool changed);

/* After the sum over `world` ranks: WK_ESTATE when a rank's graph changed, or, unless
 * `unused_fine`, when a parameter was not announced everywhere; names the first few. The same on
 * every rank. */
int usage_check(const struct usage *usage, const struct param *params, int world, bool unused_fine,
                struct error *err);

#endif
