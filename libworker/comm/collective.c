#include "libworker/comm/collective.h"

#include <string.h>

#include "libworker/comm/by_links.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/rows.h"
#include "libworker/comm/shared.h"
#include "libworker/comm/state.h"
#include "libworker/comm/status.h"
#include "libworker/comm/two_level.h"
#include "libworker/comm/wait.h"

/* With one rank its data is the result. */
static int run_alone(struct wk_comm *comm, const struct request *rq)
{
    bool reduces = rq->kind == KIND_ALL_REDUCE || rq->kind == KIND_REDUCE_SCATTER;
    if (reduces && rq->finishes) {
        struct tally tally = {.at = 0};
        struct reduction reduction = operation_reduction(comm, rq, &tally);
        reduce(&reduction, &rq->in, rq->out, rq->count);
        struct share share = {tally_squares(&tally), tally.nonfinite};
        request_store_tally(rq, &share, 1);
        return 0;
    }
    if (kind_has_rows(rq->kind))
        return rows_alone(comm, rq);
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype);
    if (rq->kind != KIND_BARRIER && rq->in != rq->out && bytes > 0)
        memmove(rq->out, rq->in, bytes);
    return 0;
}

static int run_by_placement(struct wk_comm *comm, const struct request *rq)
{
    if (kind_is_pairwise(rq->kind))
        return by_links_run(comm, rq);
    operation_header(comm, rq);
    status_begin(comm, rq);
    if (comm->world == 1)
        return run_alone(comm, rq);
    if (kind_has_rows(rq->kind))
        return by_links_run(comm, rq);
    if (comm->locals == comm->world)
        return shared_run(comm, rq);
    if (rq->kind != KIND_ALL_REDUCE)
        return by_links_run(comm, rq);
    switch (operation_way(comm, rq)) {
    case WAY_DIRECT:
    case WAY_SLICED:
        break;
    case WAY_CHAIN:
        return chain_run(comm, rq);
    case WAY_TWO_LEVELS:
        return two_level_run(comm, rq);
    }
    return by_links_run(comm, rq);
}

int collective_run(struct wk_comm *comm, const struct request *rq)
{
    int rc = wait_handle_messages(comm);
    if (rc)
        return rc;
    rc = run_by_placement(comm, rq);
    status_end(comm);
    if (rc && comm->has_segment)
        atomic_store(&comm->segment.head->done.quiet, 1);
    return rc;
}
