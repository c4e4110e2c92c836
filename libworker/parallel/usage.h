/* Which parameters took part in a window's backward passes, on all ranks: each rank puts a one
 * beside its gradients for every parameter that it announced, and their sum tells everybody the
 * same. A pass that announces nothing (an empty share, a program that leaves it out) uses all. In
 * place; one thread.
 */
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

/* Numbers beside the gradients: one for each parameter, and one for ranks whose graph changed. */
size_t usage_room(int n_params);

int usage_init(struct usage *usage, int n_params, float *used, struct error *err); /* WK_ENOMEM */
void usage_fini(struct usage *usage); /* takes zeroed memory */

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
