/* Operations with rows of different lengths. Rows are sent directly from rank to rank. The header
 * before each row has its length, so a rank that expects another length fails with an explanation.
 *
 *       all_to_all_v       1 step; sends and receives its rows
 *       all_gather_v       1 step; sends its row N-1 times, receives the others'
 *       reduce_scatter_v   1 step; sends each rank its row, sums N of its own
 */
#include "libworker/comm/rows.h"

#include <string.h>

#include "libworker/comm/failure.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/state.h"
#include "libworker/comm/transfer.h"

static void move_bytes(void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0)
        memmove(to, from, bytes);
}

static char *row_at(const void *base, size_t elements, const struct request *rq)
{
    return (char *)base + elements * wk_dtype_bytes(rq->dtype);
}

/* Copy this rank's row for itself. */
static int copy_own_row(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype);
    int r = comm->rank;
    if (rows->in_counts[r] != rows->out_counts[r])
        return comm_fail(comm, WK_EMISMATCH, -1,
                         "%s: rank %d sends itself %zu elements, expects %zu", comm->name, r,
                         rows->in_counts[r], rows->out_counts[r]);
    move_bytes(row_at(rows->out, rows->out_offsets[r], rq),
               row_at(rows->in, rows->in_offsets[r], rq), rows->in_counts[r] * size);
    return 0;
}

static void set_lengths(struct wk_comm *comm, int peer, size_t ours, size_t theirs)
{
    comm->peers[peer].ours.count = ours;
    comm->peers[peer].expected.count = theirs;
}

static int all_to_all(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype);
    int rc = copy_own_row(comm, rq);
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        set_lengths(comm, p, rows->in_counts[p], rows->out_counts[p]);
        plan_send(comm, p, row_at(rows->in, rows->in_offsets[p], rq), rows->in_counts[p] * size);
        plan_receive(comm, p, row_at(rows->out, rows->out_offsets[p], rq),
                     rows->out_counts[p] * size);
    }
    if (rc)
        return rc;
    return transfer_run(comm, NULL);
}

static int all_gather(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype), own_count = rows->out_counts[comm->rank];
    char *own = row_at(rows->out, rows->out_offsets[comm->rank], rq);
    move_bytes(own, rows->in, own_count * size);
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        set_lengths(comm, p, own_count, rows->out_counts[p]);
        plan_send(comm, p, own, own_count * size);
        plan_receive(comm, p, row_at(rows->out, rows->out_offsets[p], rq),
                     rows->out_counts[p] * size);
    }
    return transfer_run(comm, NULL);
}

static int reduce_scatter(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype), own_count = rows->in_counts[comm->rank];
    struct reduction reduction = operation_reduction(comm, rq, NULL);
    struct reduce_plan plan =
        plan_sum_of_all(comm, &reduction, row_at(rows->in, rows->in_offsets[comm->rank], rq));
    plan.dst = rows->out;
    plan.dst_size = size;
    plan.count = own_count;
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        set_lengths(comm, p, rows->in_counts[p], own_count);
        plan_send(comm, p, row_at(rows->in, rows->in_offsets[p], rq), rows->in_counts[p] * size);
    }
    return transfer_run(comm, &plan);
}

int rows_run(struct wk_comm *comm, const struct request *rq)
{
    if (rq->kind == KIND_ALL_TO_ALL_V)
        return all_to_all(comm, rq);
    return rq->kind == KIND_ALL_GATHER_V ? all_gather(comm, rq) : reduce_scatter(comm, rq);
}

int rows_alone(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype);
    if (rq->kind == KIND_ALL_TO_ALL_V)
        return copy_own_row(comm, rq);
    if (rq->kind == KIND_ALL_GATHER_V)
        move_bytes(row_at(rows->out, rows->out_offsets[0], rq), rows->in,
                   rows->out_counts[0] * size);
    else
        move_bytes(rows->out, row_at(rows->in, rows->in_offsets[0], rq), rows->in_counts[0] * size);
    return 0;
}
