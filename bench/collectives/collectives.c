/* All-reduce of two ranks over shared memory and over loopback TCP, f32 sums of random values, and
 * what memcpy does in the same run. run.py puts peers beside it.
 *
 * Usage: bench_collectives [world]. One JSON line per figure: {"transport","bytes","us"}: median
 * time of one operation as rank 0 sees it; and {"memcpy_bytes_per_s"}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libworker/comm/comm.h"

enum { WORLD_MAX = 16, ROUNDS = 7, ROUND_US = 40000, CALLS_MAX = 5000 };
enum { COPY_BYTES = 64 << 20 };

static const size_t sizes[] = {4,         8,       1 << 10, 16 << 10, 64 << 10,
                               256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fill(float *data, size_t count, int rank)
{
    uint32_t x = 2463534242u + (uint32_t)rank;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        data[i] = (float)x / 4294967296.0f - 0.5f;
    }
}

/* The same number of calls on every rank: rank 0 times one and tells. */
static int calls_for(struct wk_comm *comm, float *data, size_t count)
{
    int32_t calls = 0;
    for (int i = 0; i < 2; i++) {
        double from_us = now_us();
        if (wk_all_reduce(comm, data, count, WK_F32, WK_SUM, NULL) != 0)
            return -1;
        double us = now_us() - from_us;
        calls = us * CALLS_MAX < ROUND_US ? CALLS_MAX : (int32_t)(ROUND_US / us) + 1;
    }
    return wk_broadcast(comm, &calls, 1, WK_I32, 0, NULL) == 0 ? calls : -1;
}

static int time_size(struct wk_comm *comm, float *data, size_t bytes, double *ret_us)
{
    size_t count = bytes / sizeof(*data);
    double rounds[ROUNDS];
    fill(data, count, wk_comm_rank(comm));
    int calls = calls_for(comm, data, count);
    for (int r = 0; r < ROUNDS && calls > 0; r++) {
        fill(data, count, wk_comm_rank(comm));
        if (wk_barrier(comm, NULL) != 0)
            return -1;
        double from_us = now_us();
        for (int c = 0; c < calls; c++)
            if (wk_all_reduce(comm, data, count, WK_F32, WK_SUM, NULL) != 0)
                return -1;
        rounds[r] = (now_us() - from_us) / calls;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
    *ret_us = rounds[ROUNDS / 2];
    return calls > 0 ? 0 : -1;
}

static int be_rank(struct comm_listener *listener, const struct comm_options *options,
                   const char *transport)
{
    struct wk_comm *comm;
    struct error err = {0};
    float *data = malloc(sizes[SIZES - 1]);
    if (!data || comm_connect(listener, options, &comm, &err) != 0) {
        fprintf(stderr, "rank %d: %s\n", options->rank, err.text);
        return 1;
    }
    for (size_t s = 0; s < SIZES; s++) {
        double us;
        if (time_size(comm, data, sizes[s], &us) != 0) {
            fprintf(stderr, "rank %d: %s\n", options->rank, wk_comm_error(comm));
            return 1;
        }
        if (options->rank == 0)
            printf("{\"transport\": \"%s\", \"bytes\": %zu, \"us\": %.3f}\n", transport, sizes[s],
                   us);
        fflush(stdout);
    }
    wk_comm_close(comm);
    free(data);
    return 0;
}

static int run(int world, bool shared)
{
    struct comm_listener *listeners[WORLD_MAX];
    const char *endpoints[WORLD_MAX];
    int hosts[WORLD_MAX];
    pid_t pids[WORLD_MAX];
    int bad = 0;
    for (int r = 0; r < world; r++) {
        if (comm_listen("127.0.0.1", &listeners[r], NULL) != 0)
            return 1;
        endpoints[r] = comm_listener_endpoint(listeners[r]);
        hosts[r] = shared ? 0 : r;
    }
    fflush(stdout);
    for (int r = 0; r < world; r++) {
        struct comm_options options = {.rank = r,
                                       .world = world,
                                       .endpoints = endpoints,
                                       .hosts = hosts,
                                       .generation = 1,
                                       .timeout_ms = 60000};
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(be_rank(listeners[r], &options, shared ? "shm" : "tcp"));
    }
    for (int r = 0; r < world; r++) {
        int status;
        bad |= waitpid(pids[r], &status, 0) != pids[r] || status != 0;
        comm_listener_close(listeners[r]);
    }
    return bad;
}

static void time_memcpy(void)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double rounds[ROUNDS];
    if (!from || !to)
        return;
    fill((float *)from, COPY_BYTES / sizeof(float), 1);
    memset(to, 1, COPY_BYTES);
    for (int r = 0; r < ROUNDS; r++) {
        double from_us = now_us();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" ::"r"(to) : "memory");
        rounds[r] = now_us() - from_us;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_value);
    printf("{\"memcpy_bytes_per_s\": %.4g}\n", COPY_BYTES / rounds[ROUNDS / 2] * 1e6);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    long world = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
    if (world < 1 || world > WORLD_MAX) {
        fprintf(stderr, "usage: %s [world of 1 to %d]\n", argv[0], WORLD_MAX);
        return 2;
    }
    time_memcpy();
    return run((int)world, true) | run((int)world, false);
}
