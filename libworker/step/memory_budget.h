/* How much memory a trial may use. Above its limit a control group kills the process, while a limit
 * of the process refuses the memory. During a search the process's RLIMIT_DATA is therefore its
 * present use plus its share of what its groups and the machine have left. Our models and a
 * program's passes then get a refusal instead of a kill.
 *
 * Any thread. The limit applies to all threads of the process; with several searches the lowest
 * limit applies.
 */
#ifndef STEP_MEMORY_BUDGET_H
#define STEP_MEMORY_BUDGET_H

#include <stdbool.h>

#include "common/base/error.h"

struct wk_context;

struct memory_budget {
    bool is_limited; /* also by this search */
};

/* All ranks call it between steps: ranks of one machine divide what a common group has left. The
 * memory of gradients and optimizers is touched first, so that the groups count it. The code of a
 * collective (the communicator has the sentence), or WK_ENOMEM on all ranks with a sentence. */
int memory_budget_begin(struct wk_context *ctx, struct memory_budget *ret, struct error *err);
void memory_budget_end(const struct memory_budget *budget);

#endif
