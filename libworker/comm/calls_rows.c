/* The public operations with rows of different lengths. */
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/calls.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"
#include "libworker/comm/work.h"

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
    if (!rc)
        rc = keep_arrays(comm, request);
    if (rc)
        return rc;
    return work_submit(comm, request, ret_work);
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
