/* Objects, and rows of lengths that only their owners know: lengths first, then the bytes. */
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"

int wk_broadcast_object(struct wk_comm *comm, struct wk_bytes *object, int root)
{
    if (!comm)
        return comm_missing();
    bool own = comm->rank == root;
    int64_t bytes = own ? (int64_t)object->bytes : 0;
    int rc = wk_broadcast(comm, &bytes, 1, WK_I64, root, NULL);
    if (rc)
        return rc;
    void *data = own ? object->data : NULL;
    if (!own && bytes > 0 && !(data = malloc((size_t)bytes)))
        return comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d has no memory for %lld bytes",
                         comm->name, comm->rank, (long long)bytes);
    rc = wk_broadcast(comm, data, (size_t)bytes, WK_U8, root, NULL);
    if (rc) {
        if (!own)
            free(data);
        return rc;
    }
    *object = (struct wk_bytes){data, (size_t)bytes};
    return 0;
}

/* in[count] of each rank, one after the other. */
struct joined {
    char *data;
    size_t *counts, *offsets, *in_counts, *in_offsets; /* [world], in one allocation */
};

static int gather_rows(struct wk_comm *comm, const struct wk_buffers *own, struct joined *ret)
{
    size_t world = (size_t)comm->world, size = wk_dtype_bytes(own->dtype), total = 0;
    size_t *space = calloc(4 * world, sizeof(*space));
    if (!space || size == 0) {
        free(space);
        return comm_argument_error(comm, space ? WK_EINVAL : WK_ENOMEM, "cannot join %zu rows",
                                   world);
    }
    *ret = (struct joined){NULL, space, space + world, space + 2 * world, space + 3 * world};
    uint64_t count = own->count;
    int rc = wk_all_gather(comm, &count, ret->counts, 1, WK_I64, NULL);
    for (size_t p = 0; p < world; p++) {
        ret->in_counts[p] = own->count;
        ret->offsets[p] = total;
        total += ret->counts[p];
    }
    if (!rc && !(ret->data = malloc(total * size + 1)))
        rc = comm_fail(comm, WK_ENOMEM, -1, "%s: rank %d has no memory for %zu bytes", comm->name,
                       comm->rank, total * size);
    struct wk_rows rows = {own->in,     ret->in_counts, ret->in_offsets, ret->data,
                           ret->counts, ret->offsets,   own->dtype};
    if (!rc)
        rc = wk_all_to_all_v(comm, &rows, NULL);
    if (rc) {
        free(ret->data);
        free(space);
    }
    return rc;
}

int wk_all_gather_object(struct wk_comm *comm, const struct wk_bytes *own,
                         struct wk_bytes *ret_objects)
{
    struct joined joined;
    if (!comm)
        return comm_missing();
    struct wk_buffers buffers = {.in = own->data, .count = own->bytes, .dtype = WK_U8};
    int rc = gather_rows(comm, &buffers, &joined);
    if (rc)
        return rc;
    for (int p = 0; p < comm->world; p++)
        ret_objects[p] = (struct wk_bytes){joined.data + joined.offsets[p], joined.counts[p]};
    free(joined.counts);
    return 0;
}

int wk_all_gather_padded(struct wk_comm *comm, const struct wk_buffers *row, const void *pad,
                         struct wk_padded *ret, size_t *lengths)
{
    struct joined joined;
    size_t longest = 0, size = wk_dtype_bytes(row->dtype);
    if (!comm)
        return comm_missing();
    int rc = gather_rows(comm, row, &joined);
    if (rc)
        return rc;
    for (int p = 0; p < comm->world; p++)
        longest = joined.counts[p] > longest ? joined.counts[p] : longest;
    char *table = malloc(longest * size * (size_t)comm->world + 1);
    for (int p = 0; table && p < comm->world; p++) {
        char *to = table + longest * size * (size_t)p;
        memcpy(to, joined.data + joined.offsets[p] * size, joined.counts[p] * size);
        for (size_t i = joined.counts[p]; i < longest; i++)
            memcpy(to + i * size, pad, size);
    }
    if (lengths)
        memcpy(lengths, joined.counts, (size_t)comm->world * sizeof(*lengths));
    free(joined.data);
    free(joined.counts);
    if (!table)
        return comm_argument_error(comm, WK_ENOMEM, "no memory for %zu padded elements", longest);
    *ret = (struct wk_padded){table, longest};
    return 0;
}
