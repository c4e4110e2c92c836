/* Every operation, type and reduction, over shared memory (through rings and in place), TCP and
 * both, in worlds of 1 to 4 (16 and 64 once): right against a plain reference, and the same bits
 * whatever carried them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/comm/operations.h"
#include "tests/conformance/comm/ranks.h"
#include "tests/conformance/comm/values.h"

enum { WORLD_MAX = 4, REPEATS = 2 };

static const size_t counts[] = {0, 1, 3, 16, 17, 1000, 4099, 40003};
static const size_t large_counts[] = {300007};
static const size_t pair_counts[] = {1048583}; /* two ranks over TCP: three parts */
/* A race detector makes all of it twenty times slower. */
static const size_t thread_counts[] = {0, 17, 4099};
static const size_t thread_large_counts[] = {50021};

struct shared {
    bool arena; /* buffers lie in one */
    uint64_t hash[RANKS_MAX];
    char failure[256];
    long cases;
};

static const char *try_all_reduce(struct operations_case *c)
{
    values_fill(c->out, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_reduce(c->comm, c->out, c->count, c->dtype, c->op, NULL) != 0)
        return "all_reduce failed";
    c->hash = values_hash(c->hash, c->out, operations_bytes(c, c->count));
    return operations_reduced(c, c->out, 0) ? NULL : "all_reduce is wrong";
}

static const char *try_reduce_scatter(struct operations_case *c)
{
    size_t all = c->count * (size_t)c->world, first = c->count * (size_t)c->rank;
    values_fill(c->in, all, c->dtype, c->seed, c->rank);
    if (wk_reduce_scatter(c->comm, c->in, c->out, c->count, c->dtype, c->op, NULL) != 0)
        return "reduce_scatter failed";
    c->hash = values_hash(c->hash, c->out, operations_bytes(c, c->count));
    if (!operations_reduced(c, c->out, first))
        return "reduce_scatter is wrong";
    char *row = c->in + operations_bytes(c, first);
    if (wk_reduce_scatter(c->comm, c->in, row, c->count, c->dtype, c->op, NULL) != 0)
        return "reduce_scatter in place failed";
    return memcmp(row, c->out, operations_bytes(c, c->count)) == 0
               ? NULL
               : "reduce_scatter in place differs";
}

static const char *try_broadcast(struct operations_case *c, int root)
{
    values_fill(c->in, c->count, c->dtype, c->seed, root);
    values_fill(c->out, c->count, c->dtype, c->seed, c->rank);
    if (wk_broadcast(c->comm, c->out, c->count, c->dtype, root, NULL) != 0)
        return "broadcast failed";
    return memcmp(c->in, c->out, operations_bytes(c, c->count)) == 0 ? NULL : "broadcast is wrong";
}

static const char *try_all_gather(struct operations_case *c)
{
    values_fill(c->in, c->count, c->dtype, c->seed, c->rank);
    if (wk_all_gather(c->comm, c->in, c->out, c->count, c->dtype, NULL) != 0)
        return "all_gather failed";
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->world; r++) {
            values_fill(c->in, c->count, c->dtype, c->seed, r);
            if (memcmp(c->in, c->out + operations_bytes(c, c->count * (size_t)r),
                       operations_bytes(c, c->count)))
                return "all_gather is wrong";
        }
        char *row = c->out + operations_bytes(c, c->count * (size_t)c->rank);
        if (wk_all_gather(c->comm, row, c->out, c->count, c->dtype, NULL) != 0)
            return "all_gather in place failed";
    }
    return NULL;
}

static const char *try_sizes(struct operations_case *c, const size_t *sizes, size_t n)
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
        for (int root = 0; !failure && root<c->world; root += c->world> 16 ? 21 : 1)
            failure = try_broadcast(c, root);
        if (!failure)
            failure = try_all_gather(c);
        if (!failure)
            failure = operations_try(c);
        if (!failure && wk_barrier(c->comm, NULL) != 0)
            failure = "barrier failed";
    }
    return failure;
}

/* Many in flight at once, mixed with blocking ones, in order. */
static const char *try_async(struct operations_case *c)
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
        if (!operations_reduced(c, data + (size_t)w * COUNT, 0))
            return "asynchronous all_reduce is wrong";
    }
    return NULL;
}

static int be_rank(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *shared = ranks->arg;
    if (rc != 0)
        return rc;
    struct operations_case c = {.comm = comm, .rank = rank, .world = ranks->world};
    const size_t *many = ranks->world == 2 ? pair_counts : large_counts;
    size_t largest = ranks->world <= WORLD_MAX ? many[0] * 4 : counts[7] * 8;
    size_t most = (largest * (size_t)ranks->world + 63) / 64 * 64;
    struct wk_arena *arena = NULL;
    if (shared->arena && (wk_arena_new(2 * most, &arena) != 0 || wk_comm_register(comm, arena)))
        return 1;
    c.in = arena ? wk_arena_data(arena) : malloc(most);
    c.out = arena ? c.in + most : malloc(most);
    const char *failure = NULL;
    bool threads = ranks->kind == RANKS_THREADS, wide = ranks->world > WORLD_MAX;
    for (int d = WK_F32; !failure && d <= WK_U8; d += ranks->world > 16 ? 4
                                                      : threads || wide ? 3
                                                                        : 1) {
        c.dtype = (enum wk_dtype)d;
        if (threads)
            failure = try_sizes(&c, thread_counts, 3);
        else
            failure = try_sizes(&c, counts, ranks->world > 16 ? 4 : wide ? 6 : 8);
    }
    static const enum wk_dtype large[] = {WK_F32, WK_BF16};
    for (int d = 0; !failure && !wide && d < (threads ? 1 : 2); d++) {
        c.dtype = large[d];
        failure = try_sizes(&c, threads ? thread_large_counts : many, 1);
    }
    if (!failure && ranks->world == 16) {
        c.dtype = WK_F32;
        failure = try_sizes(&c, &counts[7], 1);
    }
    if (!failure)
        failure = try_async(&c);
    shared->hash[rank] = c.hash;
    if (failure)
        snprintf(shared->failure, sizeof(shared->failure),
                 "rank %d of %d: %s (%s, %zu elements, op %d): %s", rank, ranks->world, failure,
                 wk_dtype_name(c.dtype), c.count, (int)c.op, wk_comm_error(comm));
    struct wk_comm_statistics statistics;
    wk_comm_statistics(comm, &statistics);
    if (!failure && arena && ranks->world > 1 && ranks->world <= WORLD_MAX &&
        (ranks->hosts == HOSTS_SHARED || ranks->world == 4) && statistics.in_place == 0)
        snprintf(shared->failure, sizeof(shared->failure), "arenas were not used in place");
    if (!arena) {
        free(c.in);
        free(c.out);
    }
    wk_arena_free(arena);
    return failure != NULL;
}

struct run {
    enum ranks_kind kind;
    enum ranks_hosts hosts;
    int world;
    bool arena;
    int tcp_connections;
    const char *ways;
};

static int run_once(const struct run *run, uint64_t *ret_hashes)
{
    struct shared *shared = ranks_shared(sizeof(*shared));
    memset(shared, 0, sizeof(*shared));
    shared->arena = run->arena;
    struct ranks ranks = {.kind = run->kind,
                          .hosts = run->hosts,
                          .world = run->world,
                          .timeout_ms = 60000,
                          .tcp_connections = run->tcp_connections,
                          .ways = run->ways,
                          .generation = 3,
                          .wrong_secret_of = -1,
                          .arg = shared};
    double from_ms = ranks_now_ms();
    int bad = ranks_run(&ranks, be_rank) + (shared->failure[0] != '\0');
    printf("%-5s %-5s world %2d as %s%s%s: %s (%.1f s) %s\n", ranks_hosts_name(run->hosts),
           run->arena ? "arena" : "", run->world,
           run->kind == RANKS_THREADS ? "threads" : "processes", run->ways ? ", forced " : "",
           run->ways ? run->ways : "", bad ? "FAILED" : "ok", (ranks_now_ms() - from_ms) / 1e3,
           shared->failure);
    fflush(stdout);
    memcpy(ret_hashes, shared->hash, sizeof(shared->hash));
    return bad;
}

/* Each run must give the bits of the first. */
static int all_the_same(const struct run *runs, size_t n)
{
    uint64_t first[RANKS_MAX] = {0}, next[RANKS_MAX] = {0};
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        bad += run_once(&runs[i], i ? next : first);
        if (i > 0 && memcmp(first, next, sizeof(first)) != 0) {
            printf("world %d over %s: other bits than the first run\n", runs[i].world,
                   ranks_hosts_name(runs[i].hosts));
            bad++;
        }
    }
    return bad;
}

static int same_bits(enum ranks_kind kind, int world)
{
    static const struct run all[] = {
        {.hosts = HOSTS_SHARED},
        {.hosts = HOSTS_SHARED, .arena = true},
        {.hosts = HOSTS_APART},
        {.hosts = HOSTS_APART, .tcp_connections = -1, .ways = "chain"},
        {.hosts = HOSTS_MIXED},
        {.hosts = HOSTS_MIXED, .arena = true, .tcp_connections = 3},
        {.hosts = HOSTS_MIXED, .arena = true, .ways = "direct:1 two_levels"},
        {.hosts = HOSTS_SHARED, .arena = true},
    };
    struct run runs[sizeof(all) / sizeof(all[0])];
    size_t n = 0;
    /* A race detector wants breadth, not repetition. */
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) - (kind == RANKS_THREADS); i++) {
        if (all[i].hosts == HOSTS_MIXED && world < 3)
            continue;
        runs[n] = all[i];
        runs[n].kind = kind;
        runs[n++].world = world;
    }
    return all_the_same(runs, n);
}

/* More ranks than cores. */
static int wide_worlds(void)
{
    static const struct run of_16[] = {
        {RANKS_PROCESSES, HOSTS_SHARED, 16, true, 0, NULL},
        {RANKS_PROCESSES, HOSTS_MIXED, 16, true, 2, NULL},
        {RANKS_PROCESSES, HOSTS_APART, 16, false, 0, NULL},
    };
    static const struct run of_64[] = {
        {RANKS_PROCESSES, HOSTS_SHARED, 64, false, 0, NULL},
        {RANKS_PROCESSES, HOSTS_SHARED, 64, true, 0, NULL},
    };
    return all_the_same(of_16, 3) + all_the_same(of_64, 2);
}

int main(int argc, char **argv)
{
    enum ranks_kind kind =
        argc > 1 && strcmp(argv[1], "threads") == 0 ? RANKS_THREADS : RANKS_PROCESSES;
    int bad = 0;
    for (int world = 1; world <= (kind == RANKS_THREADS ? 3 : WORLD_MAX); world++)
        bad += same_bits(kind, world);
    bad += kind == RANKS_PROCESSES ? wide_worlds() : 0;
    printf(bad ? "%d FAILED\n" : "all ok\n", bad);
    return bad != 0;
}
