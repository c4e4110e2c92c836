/* The numbers of a step: what is summed over the ranks beside a window's gradients, with the pass
 * that sums those, always exactly and in float.
 *
 *      [0, STEP_NUMBERS_MAX)    the caller's, which are only carried (step/consensus.h)
 *      then usage_room          ranks that used each parameter (usage.h)
 *
 *      say, use ──► start ──► wait: each is the sum over the ranks ──► clear: zeros
 *
 * They are in memory of their own, apart from the gradients, and only the host reads and writes
 * them. What the device works out of the sums is the verdict. The strategy owns them; a table
 * starts and awaits their sum beside its own. One thread.
 */
#ifndef PARALLEL_STEP_NUMBERS_H
#define PARALLEL_STEP_NUMBERS_H

#include <stddef.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/optim/verdict.h"

enum { STEP_NUMBERS_MAX = 16 };

struct step_numbers {
    float *data; /* [count] */
    size_t count;
    struct wk_work *work;   /* the sum that is under way, or NULL */
    struct verdict verdict; /* on the model's queue */
};

int step_numbers_init(struct step_numbers *numbers, int n_params, struct queue *queue,
                      struct error *err);             /* WK_ENOMEM */
void step_numbers_fini(struct step_numbers *numbers); /* zeroed memory is allowed; after wait */

/* The caller's, at most STEP_NUMBERS_MAX. usage.h writes its own in place. */
void step_numbers_say(struct step_numbers *numbers, const float *said, int count);
float *step_numbers_used(struct step_numbers *numbers);

/* Begin their sum; and wait for it, if one was begun: the code of the collective. */
int step_numbers_start(struct step_numbers *numbers, struct wk_comm *comm);
int step_numbers_wait(struct step_numbers *numbers);

void step_numbers_clear(struct step_numbers *numbers); /* zeroed memory is allowed */

#endif
