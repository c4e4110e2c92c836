/* Where results may lie (in place of what they are made of, or apart) and what they may be turned
 * into on the way: every operation that allows it, over shared memory, TCP and both. Values are
 * small multiples of a half, exact in every type, so results are too.
 *
 * Usage: comm_places [threads]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/precision.h>

#include "tests/conformance/comm/ranks.h"

enum { WORLD_MOST = 4, COUNT_MOST = 40003 };

static const size_t counts[] = {0, 1, 17, 4099, COUNT_MOST};

struct place {
    struct wk_comm *comm;
    int rank, world;
    size_t count;
    enum wk_dtype dtype;
    char *in, *out;
    float *plain; /* [world, count] */
};

struct shared {
    bool arena;
    char failure[256];
};

/* Row `row` of rank `rank`: integers that are exact in a half, as are sums of four. */
static float value(int rank, int row, size_t i)
{
    return (float)((int)((i * 2654435761u >> 7) + (size_t)(rank * 31 + row * 17)) % 61 - 30);
}

static float reduced(const struct place *p, int row, size_t i, enum wk_op op)
{
    float result = value(0, row, i);
    for (int r = 1; r < p->world; r++) {
        float v = value(r, row, i);
        if (op == WK_SUM)
            result += v;
        else
            result = (op == WK_MAX ? v > result : v < result) ? v : result;
    }
    return result;
}

static enum wk_format format_of(enum wk_dtype dtype)
{
    return dtype == WK_F16 ? WK_FORMAT_F16 : dtype == WK_BF16 ? WK_FORMAT_BF16 : WK_FORMAT_F32;
}

static char *at(const struct place *p, char *data, int row)
{
    return data + (size_t)row * p->count * wk_dtype_bytes(p->dtype);
}

/* plain[count], in the case's type. */
static void put(const struct place *p, char *data)
{
    for (size_t i = 0; p->dtype == WK_F64 && i < p->count; i++)
        ((double *)data)[i] = (double)p->plain[i];
    if (p->dtype != WK_F64)
        (void)wk_narrow(data, format_of(p->dtype), p->plain, p->count);
}

static void fill(const struct place *p, char *data, int row)
{
    for (size_t i = 0; i < p->count; i++)
        p->plain[i] = value(p->rank, row, i);
    put(p, data);
}

static void fill_rows(const struct place *p, char *data)
{
    for (int row = 0; row < p->world; row++)
        fill(p, at(p, data, row), row);
}

/* Is `data`, of type `dtype`, what `scale` times the reduction of row `row` gives? */
static bool is_reduced(const struct place *p, const char *data, enum wk_dtype dtype,
                       const double row_scale[2], enum wk_op op)
{
    int row = (int)row_scale[0];
    if (dtype != WK_F64)
        (void)wk_widen(p->plain, format_of(dtype), data, p->count);
    for (size_t i = 0; i < p->count; i++) {
        double found = dtype == WK_F64 ? ((const double *)data)[i] : (double)p->plain[i];
        double expected = (double)reduced(p, row, i, op) * row_scale[1];
        if (found < expected || found > expected)
            return false;
    }
    return true;
}

static bool is_row_of(const struct place *p, const char *data, int rank, int row)
{
    struct place other = *p;
    char *expected = malloc(p->count * wk_dtype_bytes(p->dtype) + 1);
    other.rank = rank;
    fill(&other, expected, row);
    bool same = memcmp(data, expected, p->count * wk_dtype_bytes(p->dtype)) == 0;
    free(expected);
    return same;
}

static const char *try_rooted(struct place *p, int root)
{
    struct wk_buffers b = {p->in, p->in, p->count, p->dtype};
    bool is_root = p->rank == root;
    fill(p, p->in, 0);
    if (wk_reduce(p->comm, &b, WK_SUM, root, NULL) != 0)
        return "reduce in place failed";
    if (is_root ? !is_reduced(p, p->in, p->dtype, (double[]){0, 1}, WK_SUM)
                : !is_row_of(p, p->in, p->rank, 0))
        return "reduce in place is wrong";

    fill(p, p->in, 0);
    b.out = is_root ? p->out : NULL;
    if (wk_gather(p->comm, &b, root, NULL) != 0)
        return "gather apart failed";
    for (int r = 0; is_root && r < p->world; r++)
        if (!is_row_of(p, at(p, p->out, r), r, 0))
            return "gather apart is wrong";

    fill_rows(p, p->in);
    b.in = is_root ? p->in : NULL;
    b.out = is_root ? at(p, p->in, root) : p->out;
    if (wk_scatter(p->comm, &b, root, NULL) != 0)
        return "scatter in place failed";
    return is_row_of(p, b.out, root, p->rank) ? NULL : "scatter in place is wrong";
}

static const char *try_rows(struct place *p)
{
    size_t lengths[WORLD_MOST], offsets[WORLD_MOST];
    for (int r = 0; r < p->world; r++) {
        lengths[r] = p->count;
        offsets[r] = (size_t)r * p->count;
    }
    char *row = at(p, p->in, p->rank);
    struct wk_rows rows = {
        .in = p->in, .in_counts = lengths, .in_offsets = offsets, .out = row, .dtype = p->dtype};
    fill_rows(p, p->in);
    if (wk_reduce_scatter_v(p->comm, &rows, WK_SUM, NULL) != 0)
        return "reduce_scatter_v in place failed";
    return is_reduced(p, row, p->dtype, (double[]){p->rank, 1}, WK_SUM)
               ? NULL
               : "reduce_scatter_v in place is wrong";
}

static const char *try_scaled_in_place(struct place *p)
{
    static const enum wk_op ops[] = {WK_SUM, WK_MAX, WK_MIN};
    for (int i = 0; i < 3; i++) {
        struct wk_reduce_options half = {.scale = 0.5};
        struct wk_buffers b = {p->in, p->in, p->count, p->dtype};
        fill(p, p->in, 0);
        if (wk_all_reduce_with(p->comm, &b, ops[i], &half, NULL) != 0)
            return "a scaled reduction in place failed";
        if (!is_reduced(p, p->in, p->dtype, (double[]){0, 0.5}, ops[i]))
            return "a scaled reduction in place is wrong";
    }
    return NULL;
}

static const char *try_turned_into(struct place *p, enum wk_dtype into)
{
    struct wk_reduce_options options = {.scale = 0.5, .converts = true, .out_dtype = into};
    struct wk_buffers b = {p->in, p->out, p->count, p->dtype};
    fill(p, p->in, 0);
    if (wk_all_reduce_with(p->comm, &b, WK_SUM, &options, NULL) != 0)
        return "a converting all_reduce failed";
    if (!is_reduced(p, p->out, into, (double[]){0, 0.5}, WK_SUM))
        return "a converting all_reduce is wrong";
    fill_rows(p, p->in);
    if (wk_reduce_scatter_with(p->comm, &b, WK_SUM, &options, NULL) != 0)
        return "a converting reduce_scatter failed";
    return is_reduced(p, p->out, into, (double[]){p->rank, 0.5}, WK_SUM)
               ? NULL
               : "a converting reduce_scatter is wrong";
}

static const char *try_type(struct place *p)
{
    static const enum wk_dtype into[] = {WK_F32, WK_F16, WK_BF16};
    const char *failure = try_rows(p);
    for (int root = 0; !failure && root < p->world; root++)
        failure = try_rooted(p, root);
    if (!failure)
        failure = try_scaled_in_place(p);
    for (int i = 0; !failure && p->dtype != WK_F64 && i < 3; i++)
        failure = try_turned_into(p, into[i]);
    return failure;
}

static int be_rank(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    static const enum wk_dtype types[] = {WK_F32, WK_F64, WK_F16, WK_BF16};
    struct shared *shared = ranks->arg;
    struct place p = {.comm = comm, .rank = rank, .world = ranks->world};
    size_t bytes = (size_t)COUNT_MOST * WORLD_MOST * sizeof(double);
    struct wk_arena *arena = NULL;
    if (rc != 0)
        return rc;
    if (shared->arena && (wk_arena_new(2 * bytes, &arena) || wk_comm_register(comm, arena)))
        return 1;
    p.in = arena ? wk_arena_data(arena) : malloc(bytes);
    p.out = arena ? p.in + bytes : malloc(bytes);
    p.plain = malloc(bytes);
    const char *failure = NULL;
    for (int t = 0; t < 4 && !failure; t++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && !failure; c++) {
            p.dtype = types[t];
            p.count = counts[c];
            failure = try_type(&p);
        }
    if (failure)
        snprintf(shared->failure, sizeof(shared->failure), "rank %d: %s (%s, %zu elements): %s",
                 rank, failure, wk_dtype_name(p.dtype), p.count, wk_comm_error(comm));
    free(p.plain);
    if (!arena) {
        free(p.in);
        free(p.out);
    }
    wk_arena_free(arena);
    return failure != NULL;
}

int main(int argc, char **argv)
{
    bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    struct shared *shared = ranks_shared(sizeof(*shared));
    int bad = 0;
    for (int h = HOSTS_SHARED; h <= HOSTS_MIXED; h++)
        for (int world = 1; world <= WORLD_MOST; world++)
            for (int arena = 0; arena < 2; arena++) {
                *shared = (struct shared){.arena = arena};
                struct ranks ranks = {.kind = threads ? RANKS_THREADS : RANKS_PROCESSES,
                                      .hosts = (enum ranks_hosts)h,
                                      .world = world,
                                      .timeout_ms = 60000,
                                      .generation = 4,
                                      .wrong_secret_of = -1,
                                      .arg = shared};
                int failed = ranks_run(&ranks, be_rank);
                if (failed || *shared->failure)
                    printf("FAILED %s%s, world %d: %s\n", ranks_hosts_name(ranks.hosts),
                           arena ? ", arena" : "", world, shared->failure);
                bad += failed;
            }
    printf(bad ? "%d FAILED\n" : "all ok\n", bad);
    return bad != 0;
}
