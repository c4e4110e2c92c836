/* Which rank of a job is slow, as far as its programs report it. Pure.
 *
 * Ranks that meet in each step have equal step times, because the faster ones wait: only the time
 * without waiting shows which is slow. It is compared if all ranks report it (libworker does, other
 * programs may: docs/report.md), else the step times, which differ where ranks do not meet. */
#ifndef API_RPC_RANK_PACE_H
#define API_RPC_RANK_PACE_H

#include <stdbool.h>

#include "coordinator/api_rpc/rank_figures.h"
#include "coordinator/model/job.h"
#include "coordinator/model/reason.h"

enum { RANK_PACE_TIMED_MIN = 8 }; /* a rank with fewer durations is not compared */
#define RANK_PACE_SLOW    1.3     /* a rank is slow from this ratio to the median on, */
#define RANK_PACE_SLOW_MS 1.0     /* if it is this much as well */

struct rank_pace {
    int compared; /* ranks; 0 = no two can be compared, and the rest is 0 */
    bool by_work;
    double median_ms;
    int slowest; /* rank */
    double slowest_ms;
};

/* The ranks of this group are shown: of the current one, or while there is none the forming one. */
const struct group *rank_pace_group(const struct job *job);

/* NULL: this rank's worker is forgotten. */
const struct worker *rank_pace_worker(const struct job *job, int rank);

void rank_pace_read(const struct rank_figures *figures, const struct job *job,
                    struct rank_pace *ret);

/* What is compared of this worker; NAN = it is not compared. */
double rank_pace_ms(const struct rank_figures_worker *worker, bool by_work);

/* True, with a reason, if a rank of the running job is slow. */
bool rank_pace_explain(const struct rank_figures *figures, const struct job *job,
                       struct reason *ret);

#endif
