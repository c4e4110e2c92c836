/* One turn of each thing that is compared; run.py alternates them with the peers. Two ranks, but
 * for the last lines.
 *
 *     bench_collectives arena|shm|tcp BYTES...   all-reduce of f32 by two ranks: in arenas, in
 *                                                ordinary memory, over loopback TCP
 *     bench_collectives tcp2|tcp4 BYTES...       with so many connections
 *     bench_collectives hosts|hosts-flat BYTES   two hosts of two ranks: in arenas, which makes it
 *                                                two levels, or not
 *     bench_collectives copy|halves|alone|stream BYTES...   roofs.h
 *
 * One JSON line per figure: {"who", "bytes", "us"}: the median of some batches, as rank 0 sees it,
 * of reducing the same buffer again and again; "WHO, rewritten" what an all-reduce adds to a loop
 * in which each rank writes its values anew, as training does; and one per result: {"who", "bytes",
 * "digest"} (values.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/collectives/roofs.h"
#include "bench/collectives/timing.h"
#include "bench/collectives/values.h"
#include "libworker/comm/comm.h"

enum { RANKS = 2, RANKS_MAX = 4, SIZES_MAX = 32 };

struct task {
    const char *who;
    int connections; /* of tcp */
    int world;
    int ranks_per_host;
    bool in_arena;
    const size_t *sizes;
    int n;
};

static int all_reduce(struct wk_comm *comm, float *data, size_t count)
{
    return wk_all_reduce(comm, data, count, WK_F32, WK_SUM, NULL);
}

/* What the sum of everybody's values is here: run.py compares. */
static int compute(struct wk_comm *comm, const char *who, float *data, size_t count)
{
    values_fill(data, count, wk_comm_rank(comm));
    int rc = all_reduce(comm, data, count);
    if (rc == 0 && wk_comm_rank(comm) == 0)
        printf("{\"who\": \"%s\", \"bytes\": %zu, \"digest\": %" PRIu64 "}\n", who,
               count * sizeof(*data), values_digest(data, count));
    return rc;
}

/* The same number of calls on every rank: rank 0 times some and tells. */
static int calls_for(struct wk_comm *comm, float *data, size_t count)
{
    int32_t calls = 0;
    for (int i = 0; i < 3; i++) {
        double from_us = now_us();
        if (all_reduce(comm, data, count) != 0)
            return -1;
        double us = now_us() - from_us;
        calls = calls_of(us);
    }
    return wk_broadcast(comm, &calls, 1, WK_I32, 0, NULL) == 0 ? calls : -1;
}

enum { WRITES = 1, REDUCES = 2 };

/* Microseconds a call of what `does` says, over `calls` of them; negative: failed. */
static double time_batch(struct wk_comm *comm, int does, float *data, size_t count, int calls)
{
    float pattern[PATTERN_COUNT];
    values_fill(pattern, PATTERN_COUNT, wk_comm_rank(comm));
    if (wk_barrier(comm, NULL) != 0)
        return -1;
    double from_us = now_us();
    for (int c = 0; c < calls; c++) {
        if (does & WRITES)
            values_rewrite(data, count, pattern);
        if (does & REDUCES && all_reduce(comm, data, count) != 0)
            return -1;
    }
    return (now_us() - from_us) / calls;
}

static int time_size(struct wk_comm *comm, const char *who, float *data, size_t bytes)
{
    size_t count = bytes / sizeof(*data);
    double again[BATCHES], rewritten[BATCHES] = {0};
    bool rewrites = bytes >= REWRITTEN_BYTES_MIN;
    if (compute(comm, who, data, count) != 0)
        return -1;
    int calls = calls_for(comm, data, count);
    for (int b = 0; b < BATCHES && calls > 0; b++) {
        again[b] = time_batch(comm, REDUCES, data, count, calls);
        if (rewrites)
            rewritten[b] = time_batch(comm, WRITES | REDUCES, data, count, calls) -
                           time_batch(comm, WRITES, data, count, calls);
        if (again[b] < 0 || wk_comm_error(comm)[0])
            return -1;
    }
    if (calls > 0 && wk_comm_rank(comm) == 0) {
        report(who, bytes, quantile(again, BATCHES, 0.5));
        if (rewrites)
            report_rewritten(who, bytes, quantile(rewritten, BATCHES, 0.5));
    }
    return calls > 0 ? 0 : -1;
}

static int reduce_sizes(struct wk_comm *comm, const struct task *task)
{
    size_t most = 0;
    struct wk_arena *arena = NULL;
    for (int i = 0; i < task->n; i++)
        most = task->sizes[i] > most ? task->sizes[i] : most;
    bool in_arena = task->in_arena;
    if (in_arena && (wk_arena_new(most, &arena) != 0 || wk_comm_register(comm, arena) != 0))
        return -1;
    float *data = in_arena ? wk_arena_data(arena) : malloc(most);
    int rc = data ? 0 : -1;
    for (int i = 0; rc == 0 && i < task->n; i++)
        rc = time_size(comm, task->who, data, task->sizes[i]);
    if (!in_arena)
        free(data);
    wk_arena_free(arena);
    return rc;
}

static int be_rank(struct comm_listener *listener, const struct comm_options *options,
                   const struct task *task)
{
    struct wk_comm *comm;
    struct error err = {0};
    int rc = comm_connect(listener, options, &comm, &err);
    bind_to_core(options->rank);
    if (rc != 0) {
        fprintf(stderr, "rank %d: %s\n", options->rank, err.text);
        return 1;
    }
    rc = reduce_sizes(comm, task);
    if (rc != 0)
        fprintf(stderr, "rank %d: %s\n", options->rank, wk_comm_error(comm));
    wk_comm_close(comm);
    return rc != 0;
}

static int run_ranks(const struct task *task)
{
    struct comm_listener *listeners[RANKS_MAX];
    const char *endpoints[RANKS_MAX];
    int hosts[RANKS_MAX], bad = 0;
    pid_t pids[RANKS_MAX];
    for (int r = 0; r < task->world; r++) {
        if (comm_listen("127.0.0.1", &listeners[r], NULL) != 0)
            return 1;
        endpoints[r] = comm_listener_endpoint(listeners[r]);
        hosts[r] = r / task->ranks_per_host;
    }
    fflush(stdout);
    for (int r = 0; r < task->world; r++) {
        struct comm_options options = {.rank = r,
                                       .world = task->world,
                                       .endpoints = endpoints,
                                       .hosts = hosts,
                                       .generation = 1,
                                       .timeout_ms = 60000,
                                       .tcp_connections = task->connections};
        pids[r] = fork();
        if (pids[r] == 0) {
            int rc = be_rank(listeners[r], &options, task);
            fflush(stdout);
            _exit(rc);
        }
    }
    for (int r = 0; r < task->world; r++)
        comm_listener_close(listeners[r]);
    for (int r = 0; r < task->world; r++) {
        int status = -1;
        bad |= waitpid(pids[r], &status, 0) != pids[r] || status != 0;
    }
    return bad;
}

static const struct task tasks[] = {
    {"arena", 1, RANKS, RANKS, true},
    {"shm", 1, RANKS, RANKS, false},
    {"tcp", 1, RANKS, 1, false},
    {"tcp2", 2, RANKS, 1, false},
    {"tcp4", 4, RANKS, 1, false},
    {"hosts", 1, 2 * RANKS, RANKS, true},
    {"hosts-flat", 1, 2 * RANKS, RANKS, false},
};

int main(int argc, char **argv)
{
    size_t sizes[SIZES_MAX];
    int n = 0;
    const char *who = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc && n < SIZES_MAX; i++)
        sizes[n++] = strtoul(argv[i], NULL, 10);
    if (n > 0 && roof_known(who))
        return roof_run(who, sizes, n);
    for (size_t t = 0; n > 0 && t < sizeof(tasks) / sizeof(tasks[0]); t++) {
        struct task task = tasks[t];
        task.sizes = sizes;
        task.n = n;
        if (strcmp(task.who, who) == 0)
            return run_ranks(&task);
    }
    fprintf(stderr,
            "usage: %s arena|shm|tcp|tcp2|tcp4|hosts|hosts-flat|copy|halves|stream BYTES...\n",
            argv[0]);
    return 2;
}
