/* Operations with rows of different lengths. Rows are sent directly from rank to rank. The header
 * before each row has its length, so a rank that expects another length fails with an explanation.
 *
 *       all_to_all_v       1 step; sends and receives its rows
 *       all_gather_v       1 step; sends its row N-1 times, receives the others'
 *       reduce_scatter_v   1 step; sends each rank its row, sums N of its own
 */
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/comm_internal.h"

static void move(void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0)
        memmove(to, from, bytes);
}

static char *place(const void *base, size_t elements, const struct request *rq)
{
    return (char *)base + elements * wk_dtype_bytes(rq->dtype);
}

/* Copy this rank's row for itself. */
static int keep_own(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype);
    int r = comm->rank;
    if (rows->in_counts[r] != rows->out_counts[r])
        return comm_fail(comm, WK_EMISMATCH, -1,
                         "%s: rank %d sends itself %zu elements, expects %zu", comm->name, r,
                         rows->in_counts[r], rows->out_counts[r]);
    move(place(rows->out, rows->out_offsets[r], rq), place(rows->in, rows->in_offsets[r], rq),
         rows->in_counts[r] * size);
    return 0;
}

static void lengths(struct wk_comm *comm, int peer, size_t ours, size_t theirs)
{
    comm->peers[peer].ours.count = ours;
    comm->peers[peer].expected.count = theirs;
}

static int all_to_all(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype);
    int rc = keep_own(comm, rq);
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        lengths(comm, p, rows->in_counts[p], rows->out_counts[p]);
        plan_send(comm, p, place(rows->in, rows->in_offsets[p], rq), rows->in_counts[p] * size);
        plan_receive(comm, p, place(rows->out, rows->out_offsets[p], rq),
                     rows->out_counts[p] * size);
    }
    return rc != 0 ? rc : transfer_run(comm, NULL);
}

static int all_gather(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype), own_count = rows->out_counts[comm->rank];
    char *own = place(rows->out, rows->out_offsets[comm->rank], rq);
    move(own, rows->in, own_count * size);
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        lengths(comm, p, own_count, rows->out_counts[p]);
        plan_send(comm, p, own, own_count * size);
        plan_receive(comm, p, place(rows->out, rows->out_offsets[p], rq),
                     rows->out_counts[p] * size);
    }
    return transfer_run(comm, NULL);
}

static int reduce_scatter(struct wk_comm *comm, const struct request *rq)
{
    const struct wk_rows *rows = &rq->rows;
    size_t size = wk_dtype_bytes(rq->dtype), own_count = rows->in_counts[comm->rank];
    struct reduction reduction = request_reduction(comm, rq, NULL);
    struct reduce_plan plan =
        plan_sum_of_all(comm, &reduction, place(rows->in, rows->in_offsets[comm->rank], rq));
    plan.dst = rows->out;
    plan.dst_size = size;
    plan.count = own_count;
    for (int p = 0; p < comm->world; p++) {
        if (p == comm->rank)
            continue;
        lengths(comm, p, rows->in_counts[p], own_count);
        plan_send(comm, p, place(rows->in, rows->in_offsets[p], rq), rows->in_counts[p] * size);
    }
    return transfer_run(comm, &plan);
}

bool rows_kind(enum kind kind)
{
    return kind == KIND_ALL_TO_ALL_V || kind == KIND_ALL_GATHER_V || kind == KIND_REDUCE_SCATTER_V;
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
        return keep_own(comm, rq);
    if (rq->kind == KIND_ALL_GATHER_V)
        move(place(rows->out, rows->out_offsets[0], rq), rows->in, rows->out_counts[0] * size);
    else
        move(rows->out, place(rows->in, rows->in_offsets[0], rq), rows->in_counts[0] * size);
    return 0;
}

/* Non-empty rows have memory: `counts` of its in, or of its out. */
static bool has_rows(const struct wk_comm *comm, const struct request *rq, bool is_in)
{
    const struct wk_rows *rows = &rq->rows;
    const size_t *counts = is_in ? rows->in_counts : rows->out_counts;
    size_t total = 0;
    if (is_in && rq->kind == KIND_ALL_GATHER_V)
        total = rows->out_counts[comm->rank];
    else if (!is_in && rq->kind == KIND_REDUCE_SCATTER_V)
        total = rows->in_counts[comm->rank];
    else
        for (int p = 0; p < comm->world; p++)
            total |= counts[p];
    return total == 0 || (is_in ? rows->in != NULL : rows->out != NULL);
}

/* An asynchronous operation outlives the caller's arrays. */
static int keep_arrays(struct wk_comm *comm, struct request *request)
{
    struct wk_rows *rows = &request->rows;
    bool takes_in = request->kind != KIND_ALL_GATHER_V;
    bool gives_out = request->kind != KIND_REDUCE_SCATTER_V;
    const size_t **arrays[4] = {&rows->in_counts, &rows->in_offsets, &rows->out_counts,
                                &rows->out_offsets};
    size_t n = (size_t)comm->world;
    size_t *space = malloc(4 * n * sizeof(*space));
    if (!space)
        return comm_argument_error(comm, WK_ENOMEM, "no memory for the lengths of rows");
    for (int i = 0; i < 4; i++) {
        bool used = i < 2 ? takes_in : gives_out;
        const char *why = !used ? NULL : !*arrays[i] ? "rows without counts or offsets" : NULL;
        for (size_t p = 0; used && !why && p < n; p++)
            if ((*arrays[i])[p] > PTRDIFF_MAX / 16)
                why = "a row does not fit memory";
        if (why) {
            free(space);
            return comm_argument_error(comm, WK_EINVAL, "%s", why);
        }
        if (used)
            memcpy(space + (size_t)i * n, *arrays[i], n * sizeof(*space));
        *arrays[i] = used ? space + (size_t)i * n : NULL;
    }
    if (!has_rows(comm, request, true) || !has_rows(comm, request, false)) {
        free(space);
        return comm_argument_error(comm, WK_EINVAL, "rows of elements, but no buffer");
    }
    request->row_space = space;
    return 0;
}

static int submit_rows(struct wk_comm *comm, struct request *request, struct wk_work **ret_work)
{
    if (!comm)
        return comm_missing();
    int rc = request_check(comm, request);
    if (rc == 0)
        rc = keep_arrays(comm, request);
    return rc != 0 ? rc : work_submit(comm, request, ret_work);
}

int wk_all_to_all_v(struct wk_comm *comm, const struct wk_rows *rows, struct wk_work **ret_work)
{
    struct request request = {.kind = KIND_ALL_TO_ALL_V, .dtype = rows->dtype, .rows = *rows};
    return submit_rows(comm, &request, ret_work);
}

int wk_all_gather_v(struct wk_comm *comm, const struct wk_rows *rows, struct wk_work **ret_work)
{
    struct request request = {.kind = KIND_ALL_GATHER_V, .dtype = rows->dtype, .rows = *rows};
    return submit_rows(comm, &request, ret_work);
}

int wk_reduce_scatter_v(struct wk_comm *comm, const struct wk_rows *rows, enum wk_op op,
                        struct wk_work **ret_work)
{
    struct request request = {
        .kind = KIND_REDUCE_SCATTER_V, .dtype = rows->dtype, .op = op, .rows = *rows};
    return submit_rows(comm, &request, ret_work);
}
