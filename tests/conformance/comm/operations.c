#include "tests/conformance/comm/operations.h"
#include "tests/lib/rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/comm/values.h"

enum { WORLD_MOST = 64 };

size_t operations_bytes(const struct operations_case *c, size_t count)
{
    return count * wk_dtype_bytes(c->dtype);
}

int operations_reduced(const struct operations_case *c, const void *data, size_t first)
{
    struct values_case values = {c->dtype, c->op, c->seed, c->world};
    return values_reduced(&values, data, c->count, first);
}

static struct wk_buffers buffers(const struct operations_case *c)
{
    return (struct wk_buffers){c->in, c->out, c->count, c->dtype};
}

/* Rank r's row p is the values of seed + p. */
static void fill_rows(const struct operations_case *c, char *data, int rank)
{
    for (int p = 0; p < c->world; p++)
        values_fill(data + operations_bytes(c, c->count * (size_t)p), c->count, c->dtype,
                    c->seed + (uint64_t)p, rank);
}

/* Is `row` what rank `rank` has in its row `which`? Spoils `in`. */
static int is_row(const struct operations_case *c, const char *row, int rank, int which)
{
    values_fill(c->in, c->count, c->dtype, c->seed + (uint64_t)which, rank);
    return memcmp(c->in, row, operations_bytes(c, c->count)) == 0;
}

static const char *try_reduce(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    int root = (int)(c->seed % (uint64_t)c->world);
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (c->rank != root)
        b.out = NULL;
    if (wk_reduce(c->comm, &b, c->op, root, NULL) != 0)
        return "reduce failed";
    if (c->rank != root)
        return NULL;
    c->hash = values_hash(c->hash, c->out, operations_bytes(c, c->count));
    return operations_reduced(c, c->out, 0) ? NULL : "reduce is wrong";
}

static const char *try_gather(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    int root = (int)(c->seed % (uint64_t)c->world);
    size_t row = operations_bytes(c, c->count);
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (c->rank == root) { /* in place */
        b.in = c->out + row * (size_t)root;
        memcpy(c->out + row * (size_t)root, c->in, row);
    }
    if (wk_gather(c->comm, &b, root, NULL) != 0)
        return "gather failed";
    for (int p = 0; p < c->world && c->rank == root; p++)
        if (!is_row(c, c->out + row * (size_t)p, p, 0))
            return "gather is wrong";
    return NULL;
}

static const char *try_scatter(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    int root = (int)(c->seed % (uint64_t)c->world);
    fill_rows(c, c->in, c->rank);
    if (wk_scatter(c->comm, &b, root, NULL) != 0)
        return "scatter failed";
    return is_row(c, c->out, root, c->rank) ? NULL : "scatter is wrong";
}

static const char *try_all_to_all(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    fill_rows(c, c->in, c->rank);
    if (wk_all_to_all(c->comm, &b, NULL) != 0)
        return "all_to_all failed";
    for (int p = 0; p < c->world; p++)
        if (!is_row(c, c->out + operations_bytes(c, c->count * (size_t)p), p, c->rank))
            return "all_to_all is wrong";
    return NULL;
}

/* Rank r sends rank p the first count / (1 + (r + p) % 3) elements. */
static const char *try_all_to_all_v(struct operations_case *c)
{
    size_t in_counts[WORLD_MOST], offsets[WORLD_MOST], out_counts[WORLD_MOST];
    for (int p = 0; p < c->world; p++) {
        in_counts[p] = out_counts[p] = c->count / (size_t)(1 + (c->rank + p) % 3);
        offsets[p] = c->count * (size_t)p;
    }
    struct wk_rows rows = {c->in, in_counts, offsets, c->out, out_counts, offsets, c->dtype};
    fill_rows(c, c->in, c->rank);
    if (wk_all_to_all_v(c->comm, &rows, NULL) != 0)
        return "all_to_all_v failed";
    for (int p = 0; p < c->world; p++) {
        values_fill(c->in, c->count, c->dtype, c->seed + (uint64_t)c->rank, p);
        if (memcmp(c->in, c->out + operations_bytes(c, offsets[p]),
                   operations_bytes(c, out_counts[p])) != 0)
            return "all_to_all_v is wrong";
    }
    return NULL;
}

/* Of rank p: nothing, a third, all, nothing, ... */
static size_t uneven(const struct operations_case *c, int p)
{
    return c->count * (size_t)(p % 3) / (size_t)(1 + p % 3 % 2 * 2);
}

static const char *try_all_gather_v(struct operations_case *c)
{
    size_t counts[WORLD_MOST], offsets[WORLD_MOST];
    for (int p = 0; p < c->world; p++) {
        counts[p] = uneven(c, p) / 2;
        offsets[p] = c->count * (size_t)(c->world - 1 - p);
    }
    struct wk_rows rows = {.in = c->in,
                           .out = c->out,
                           .out_counts = counts,
                           .out_offsets = offsets,
                           .dtype = c->dtype};
    for (int pass = 0; pass < 2; pass++) {
        values_fill(c->in, counts[c->rank], c->dtype, c->seed, c->rank);
        if (wk_all_gather_v(c->comm, &rows, NULL) != 0)
            return "all_gather_v failed";
        for (int p = 0; p < c->world; p++) {
            values_fill(c->in, counts[p], c->dtype, c->seed, p);
            if (memcmp(c->in, c->out + operations_bytes(c, offsets[p]),
                       operations_bytes(c, counts[p])) != 0)
                return "all_gather_v is wrong";
        }
        rows.in = c->out + operations_bytes(c, offsets[c->rank]);
    }
    return NULL;
}

static const char *try_reduce_scatter_v(struct operations_case *c)
{
    size_t counts[WORLD_MOST], offsets[WORLD_MOST], all = 0;
    for (int p = 0; p < c->world; p++) {
        counts[p] = uneven(c, p) / 2;
        offsets[p] = all;
        all += counts[p];
    }
    struct wk_rows rows = {
        .in = c->in, .in_counts = counts, .in_offsets = offsets, .out = c->out, .dtype = c->dtype};
    struct operations_case own = *c;
    own.count = counts[c->rank];
    values_fill(c->in, all, c->dtype, c->seed, c->rank);
    if (wk_reduce_scatter_v(c->comm, &rows, c->op, NULL) != 0)
        return "reduce_scatter_v failed";
    c->hash = values_hash(c->hash, c->out, operations_bytes(c, own.count));
    return operations_reduced(&own, c->out, offsets[c->rank]) ? NULL : "reduce_scatter_v is wrong";
}

/* Around a circle, then from the last to the first alone. */
static const char *try_pairs(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    int next = (c->rank + 1) % c->world, before = (c->rank + c->world - 1) % c->world;
    int last = c->world - 1;
    if (c->world == 1)
        return NULL;
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (wk_send_recv(c->comm, &b, next, before, NULL) != 0)
        return "send_recv failed";
    if (!is_row(c, c->out, before, 0))
        return "send_recv is wrong";
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (c->rank == last && wk_send(c->comm, c->in, c->count, c->dtype, 0, NULL) != 0)
        return "send failed";
    if (c->rank == 0 && wk_recv(c->comm, c->out, c->count, c->dtype, last, NULL) != 0)
        return "recv failed";
    return c->rank != 0 || is_row(c, c->out, last, 0) ? NULL : "recv is wrong";
}

static double value_at(const void *data, enum wk_dtype dtype, size_t i)
{
    uint32_t bits = 0;
    float value;
    if (dtype == WK_F64)
        return ((const double *)data)[i];
    if (dtype == WK_F32)
        return (double)((const float *)data)[i];
    bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

/* Scaled by a half, cast to bf16 (f64 stays), squares and infinities told. */
static const char *try_finish(struct operations_case *c, bool scatter)
{
    double squares = -1, expected = 0;
    int wild = -1;
    struct wk_reduce_options options = {.scale = 0.5,
                                        .converts = c->dtype != WK_F64,
                                        .out_dtype = c->dtype == WK_F64 ? WK_F64 : WK_BF16,
                                        .ret_squares = &squares,
                                        .ret_nonfinite = &wild};
    struct wk_buffers b = buffers(c);
    enum wk_dtype out_dtype = options.out_dtype;
    bool poisoned = c->dtype == WK_F32 && c->count > 2 && c->seed % 2 == 0;
    size_t rows = scatter ? (size_t)c->world : 1;
    values_fill(c->in, c->count * rows, c->dtype, c->seed, c->rank);
    if (poisoned && c->rank == c->world - 1)
        ((float *)c->in)[c->count * rows - 2] = INFINITY;
    int rc = scatter ? wk_reduce_scatter_with(c->comm, &b, WK_SUM, &options, NULL)
                     : wk_all_reduce_with(c->comm, &b, WK_SUM, &options, NULL);
    if (rc != 0)
        return "a finished reduction failed";
    if (wild != (poisoned ? 1 : 0))
        return "infinities are told wrongly";
    c->hash = values_hash(c->hash, c->out, c->count * wk_dtype_bytes(out_dtype));
    if (poisoned)
        return isfinite(squares) ? "squares of infinities are finite" : NULL;
    c->hash = values_hash(c->hash, &squares, sizeof(squares));
    for (size_t i = 0; i < c->count; i++) {
        double v = value_at(c->out, out_dtype, i);
        expected += v * v;
    }
    if (scatter) /* of all rows */
        rc = wk_all_reduce(c->comm, &expected, 1, WK_F64, WK_SUM, NULL);
    return rc == 0 && fabs(squares - expected) <= 4 * ROUNDING_BF16 * expected + 1e-30
               ? NULL
               : "squares are wrong";
}

/* Of the tally only what is asked for: the flag, or the squares of what is finite. */
static const char *try_flag(struct operations_case *c)
{
    struct wk_buffers b = buffers(c);
    double squares = -1;
    int wild = -1;
    struct wk_reduce_options flag = {.ret_nonfinite = &wild}, sum = {.ret_squares = &squares};
    bool poisoned = c->count > 0 && c->seed % 2 == 0;
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_reduce_with(c->comm, &b, WK_SUM, &sum, NULL) != 0)
        return "a reduction with squares failed";
    c->hash = values_hash(c->hash, &squares, sizeof(squares));
    if (poisoned && c->rank == 0)
        ((float *)c->in)[c->count - 1] = -INFINITY;
    if (wk_all_reduce_with(c->comm, &b, WK_SUM, &flag, NULL) != 0)
        return "a reduction with the flag failed";
    return wild == poisoned && (c->count == 0 ? squares == 0 : squares > 0)
               ? NULL
               : "the flag or the squares are wrong";
}

/* The values themselves: scale and no conversion. */
static const char *try_scale(struct operations_case *c)
{
    struct wk_buffers b = {c->out, c->out, c->count, c->dtype};
    struct wk_reduce_options options = {.scale = 1.0 / c->world};
    enum wk_op op = c->op;
    values_fill(c->out, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_reduce_with(c->comm, &b, WK_SUM, &options, NULL) != 0)
        return "a scaled reduction failed";
    c->hash = values_hash(c->hash, c->out, operations_bytes(c, c->count));
    c->op = WK_MEAN;
    /* Dividing and multiplying by the inverse agree where the inverse is exact. */
    bool exact = (c->world & (c->world - 1)) == 0;
    int right = !exact || operations_reduced(c, c->out, 0);
    c->op = op;
    return right ? NULL : "a scaled reduction is wrong";
}

const char *operations_try(struct operations_case *c)
{
    const char *failure = try_reduce(c);
    bool real = c->dtype == WK_F32 || c->dtype == WK_F64 || c->dtype == WK_BF16;
    if (!failure)
        failure = try_gather(c);
    if (!failure)
        failure = try_scatter(c);
    if (!failure)
        failure = try_all_to_all(c);
    if (!failure)
        failure = try_all_to_all_v(c);
    if (!failure)
        failure = try_all_gather_v(c);
    if (!failure)
        failure = try_reduce_scatter_v(c);
    if (!failure)
        failure = try_pairs(c);
    if (!failure && real)
        failure = try_finish(c, false);
    if (!failure && real)
        failure = try_finish(c, true);
    if (!failure && c->dtype == WK_F32)
        failure = try_flag(c);
    if (!failure && real)
        failure = try_scale(c);
    return failure;
}
