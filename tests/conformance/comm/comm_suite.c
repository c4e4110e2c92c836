/* Every operation, type and reduction, over shared memory, TCP and both, in worlds of 1 to 4 (and
 * 16 once): right against a plain reference, and the same bits whatever carried them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/comm/ranks.h"
#include "tests/conformance/comm/values.h"

enum { WORLD_MAX = 4, REPEATS = 2 };

static const size_t counts[] = {0, 1, 3, 16, 17, 1000, 4099, 40003};
static const size_t large_counts[] = {300007};

struct shared {
    uint64_t hash[RANKS_MAX];
    char failure[256];
    long cases;
};

struct one {
    struct wk_comm *comm;
    int rank, world;
    size_t count;
    enum wk_dtype dtype;
    enum wk_op op;
    uint64_t seed;
    char *in, *out;
    uint64_t hash;
};

static size_t bytes_of(const struct one *c, size_t count)
{
    return count * wk_dtype_bytes(c->dtype);
}

static int all_reduced(const struct one *c, const void *data, size_t first)
{
    struct values_case values = {c->dtype, c->op, c->seed, c->world};
    for (size_t i = 0; i < c->count; i++)
        if (!values_reduced(&values, data, i, first + i))
            return 0;
    return 1;
}

static const char *try_all_reduce(struct one *c)
{
    values_fill(c->out, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_reduce(c->comm, c->out, c->count, c->dtype, c->op, NULL) != 0)
        return "all_reduce failed";
    c->hash = values_hash(c->hash, c->out, bytes_of(c, c->count));
    return all_reduced(c, c->out, 0) ? NULL : "all_reduce is wrong";
}

static const char *try_reduce_scatter(struct one *c)
{
    size_t all = c->count * (size_t)c->world, first = c->count * (size_t)c->rank;
    values_fill(c->in, all, c->dtype, c->seed, c->rank);
    if (wk_reduce_scatter(c->comm, c->in, c->out, c->count, c->dtype, c->op, NULL) != 0)
        return "reduce_scatter failed";
    c->hash = values_hash(c->hash, c->out, bytes_of(c, c->count));
    if (!all_reduced(c, c->out, first))
        return "reduce_scatter is wrong";
    char *row = c->in + bytes_of(c, first);
    if (wk_reduce_scatter(c->comm, c->in, row, c->count, c->dtype, c->op, NULL) != 0)
        return "reduce_scatter in place failed";
    return memcmp(row, c->out, bytes_of(c, c->count)) == 0 ? NULL
                                                           : "reduce_scatter in place differs";
}

static const char *try_broadcast(struct one *c, int root)
{
    values_fill(c->in, c->count, c->dtype, c->seed, root);
    values_fill(c->out, c->count, c->dtype, c->seed, c->rank);
    if (wk_broadcast(c->comm, c->out, c->count, c->dtype, root, NULL) != 0)
        return "broadcast failed";
    return memcmp(c->in, c->out, bytes_of(c, c->count)) == 0 ? NULL : "broadcast is wrong";
}

static const char *try_all_gather(struct one *c)
{
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_gather(c->comm, c->in, c->out, c->count, c->dtype, NULL) != 0)
        return "all_gather failed";
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->world; r++) {
            values_fill(c->in, c->count, c->dtype, c->seed, r);
            if (memcmp(c->in, c->out + bytes_of(c, c->count * (size_t)r), bytes_of(c, c->count)))
                return "all_gather is wrong";
        }
        char *row = c->out + bytes_of(c, c->count * (size_t)c->rank);
        if (wk_all_gather(c->comm, row, c->out, c->count, c->dtype, NULL) != 0)
            return "all_gather in place failed";
    }
    return NULL;
}

static const char *try_sizes(struct one *c, const size_t *sizes, size_t n)
{
    const char *failure = NULL;
    for (size_t s = 0; !failure && s < n; s++) {
        c->count = sizes[s];
        c->seed++;
        for (int op = WK_SUM; !failure && op <= WK_MIN; op++) {
            c->op = (enum wk_op)op;
            failure = try_all_reduce(c);
            if (!failure)
                failure = try_reduce_scatter(c);
        }
        for (int root = 0; !failure && root < c->world; root++)
            failure = try_broadcast(c, root);
        if (!failure)
            failure = try_all_gather(c);
        if (!failure && wk_barrier(c->comm, NULL) != 0)
            failure = "barrier failed";
    }
    return failure;
}

/* Many in flight at once, mixed with blocking ones, in order. */
static const char *try_async(struct one *c)
{
    enum { WORKS = 20, COUNT = 5000 };
    struct wk_work *works[WORKS];
    float *data = (float *)c->in;
    c->dtype = WK_F32;
    c->op = WK_MEAN;
    c->count = COUNT;
    for (int w = 0; w < WORKS; w++) {
        values_fill(data + (size_t)w * COUNT, COUNT, WK_F32, (uint64_t)w, c->rank);
        if (wk_all_reduce(c->comm, data + (size_t)w * COUNT, COUNT, WK_F32, WK_MEAN, &works[w]))
            return "asynchronous all_reduce was not taken";
    }
    if (wk_barrier(c->comm, NULL) != 0)
        return "barrier behind asynchronous work failed";
    for (int w = WORKS - 1; w >= 0; w--) {
        if (wk_wait(works[w]) != 0)
            return "asynchronous all_reduce failed";
        c->seed = (uint64_t)w;
        if (!all_reduced(c, data + (size_t)w * COUNT, 0))
            return "asynchronous all_reduce is wrong";
    }
    return NULL;
}

static int be_rank(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *shared = ranks->arg;
    if (rc != 0)
        return rc;
    struct one c = {.comm = comm, .rank = rank, .world = ranks->world};
    size_t most = large_counts[0] * 8 * (size_t)ranks->world;
    c.in = malloc(most);
    c.out = malloc(most);
    bool few = ranks->kind == RANKS_THREADS || ranks->world > WORLD_MAX;
    const char *failure = NULL;
    for (int d = WK_F32; !failure && d <= WK_U8; d++) {
        c.dtype = (enum wk_dtype)d;
        failure = try_sizes(&c, counts, few ? 6 : 8);
    }
    static const enum wk_dtype large[] = {WK_F32, WK_BF16};
    for (int d = 0; !failure && ranks->world <= WORLD_MAX && d < 2; d++) {
        c.dtype = large[d];
        failure = try_sizes(&c, large_counts, 1);
    }
    if (!failure)
        failure = try_async(&c);
    shared->hash[rank] = c.hash;
    if (failure)
        snprintf(shared->failure, sizeof(shared->failure),
                 "rank %d of %d: %s (%s, %zu elements, op %d): %s", rank, ranks->world, failure,
                 wk_dtype_name(c.dtype), c.count, (int)c.op, wk_comm_error(comm));
    free(c.in);
    free(c.out);
    return failure != NULL;
}

static int run_once(enum ranks_kind kind, enum ranks_hosts hosts, int world, uint64_t *ret_hashes)
{
    struct shared *shared = ranks_shared(sizeof(*shared));
    memset(shared, 0, sizeof(*shared));
    struct ranks ranks = {.kind = kind,
                          .hosts = hosts,
                          .world = world,
                          .timeout_ms = 60000,
                          .generation = 3,
                          .wrong_secret_of = -1,
                          .arg = shared};
    double from_ms = ranks_now_ms();
    int bad = ranks_run(&ranks, be_rank);
    printf("%-5s world %2d as %s: %s (%.1f s) %s\n", ranks_hosts_name(hosts), world,
           kind == RANKS_THREADS ? "threads" : "processes", bad ? "FAILED" : "ok",
           (ranks_now_ms() - from_ms) / 1e3, shared->failure);
    fflush(stdout);
    memcpy(ret_hashes, shared->hash, sizeof(shared->hash));
    return bad;
}

static int same_bits(enum ranks_kind kind, int world)
{
    uint64_t first[RANKS_MAX], next[RANKS_MAX];
    int bad = 0, runs = 0;
    int repeats = kind == RANKS_THREADS ? 1 : REPEATS; /* a race detector wants breadth */
    for (int repeat = 0; repeat < repeats; repeat++) {
        for (int hosts = HOSTS_SHARED; hosts <= HOSTS_MIXED; hosts++) {
            if ((hosts == HOSTS_MIXED && world < 3) || (repeat > 0 && hosts == HOSTS_MIXED))
                continue;
            bad += run_once(kind, (enum ranks_hosts)hosts, world, runs ? next : first);
            if (runs++ > 0 && memcmp(first, next, sizeof(first)) != 0) {
                printf("world %d over %s: other bits than the first run\n", world,
                       ranks_hosts_name((enum ranks_hosts)hosts));
                bad++;
            }
        }
    }
    return bad;
}

int main(int argc, char **argv)
{
    enum ranks_kind kind =
        argc > 1 && strcmp(argv[1], "threads") == 0 ? RANKS_THREADS : RANKS_PROCESSES;
    uint64_t hashes[RANKS_MAX];
    int bad = 0;
    for (int world = 1; world <= WORLD_MAX; world++)
        bad += same_bits(kind, world);
    if (kind == RANKS_PROCESSES) {
        bad += run_once(kind, HOSTS_SHARED, 16, hashes);
        bad += run_once(kind, HOSTS_MIXED, 16, hashes);
    }
    printf(bad ? "%d FAILED\n" : "all ok\n", bad);
    return bad != 0;
}
