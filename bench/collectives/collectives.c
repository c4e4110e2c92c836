/* One turn of each thing that is compared; run.py alternates them with the peers. Two ranks, but
 * for the last lines.
 *
 *     bench_collectives arena|shm|tcp BYTES...   all-reduce of f32 by two ranks: in arenas, in
 *                                                ordinary memory, over loopback TCP
 *     bench_collectives tcp2|tcp4 BYTES...       with so many connections
 *     bench_collectives hosts|hosts-flat BYTES   two hosts of two ranks: in arenas, which makes it
 *                                                two levels, or not
 *     bench_collectives stream BYTES...          what TCP itself needs to carry what an all-reduce
 *                                                sends: both ways at once over one connection
 *     bench_collectives copy BYTES...            memcpy on both cores at once
 *     bench_collectives kill N                   N times: SIGKILL of an awaited rank to the error
 *
 * One JSON line per figure: {"who", "bytes", "us"}: the median of some batches, as rank 0 sees it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libworker/comm/comm.h"

enum { RANKS = 2, RANKS_MAX = 4, BATCHES = 5, CALLS_MAX = 20000, SIZES_MAX = 32, KILLS_MAX = 1000 };
#define BATCH_US 15000.0

/* What both ranks see. */
struct shared {
    _Atomic int ready;
    _Atomic int turn;
    double at_us;
    double took_us;
};

struct task {
    const char *who;
    int connections; /* of tcp */
    int world;
    bool in_arena;
    const size_t *sizes;
    int n;
    struct shared *shared;
};

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

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

static void report(const char *who, size_t bytes, double us)
{
    printf("{\"who\": \"%s\", \"bytes\": %zu, \"us\": %.4f}\n", who, bytes, us);
    fflush(stdout);
}

static void fill(float *data, size_t count, int rank)
{
    uint32_t x = 2463534242u + (uint32_t)rank;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        data[i] = ((float)x / 4294967296.0f - 0.5f) * 1e-30f; /* sums must not overflow */
    }
}

static int all_reduce(struct wk_comm *comm, float *data, size_t count)
{
    return wk_all_reduce(comm, data, count, WK_F32, WK_SUM, NULL);
}

/* Both peers and we must have computed the same: the sum of what the ranks were given. */
static int verify(struct wk_comm *comm, float *data, size_t count)
{
    int world = wk_comm_world(comm);
    float *other = malloc(count * sizeof(*other)), *sum = calloc(count, sizeof(*sum));
    int rc = other && sum ? 0 : -1;
    for (int r = 0; rc == 0 && r < world; r++) {
        fill(other, count, r);
        for (size_t i = 0; i < count; i++)
            sum[i] = r == 0 ? other[i] : sum[i] + other[i];
    }
    fill(data, count, wk_comm_rank(comm));
    if (rc == 0)
        rc = all_reduce(comm, data, count);
    if (rc == 0)
        rc = memcmp(data, sum, count * sizeof(*sum)) == 0 ? 0 : -1;
    free(other);
    free(sum);
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
        calls = us * CALLS_MAX < BATCH_US ? CALLS_MAX : (int32_t)(BATCH_US / us) + 2;
    }
    return wk_broadcast(comm, &calls, 1, WK_I32, 0, NULL) == 0 ? calls : -1;
}

static int time_size(struct wk_comm *comm, float *data, size_t bytes, double *ret_us)
{
    size_t count = bytes / sizeof(*data);
    double batches[BATCHES];
    if (verify(comm, data, count) != 0)
        return -1;
    int calls = calls_for(comm, data, count);
    for (int b = 0; b < BATCHES && calls > 0; b++) {
        if (wk_barrier(comm, NULL) != 0)
            return -1;
        double from_us = now_us();
        for (int c = 0; c < calls; c++)
            if (all_reduce(comm, data, count) != 0)
                return -1;
        batches[b] = (now_us() - from_us) / calls;
    }
    *ret_us = median(batches, BATCHES);
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
    for (int i = 0; rc == 0 && i < task->n; i++) {
        double us;
        rc = time_size(comm, data, task->sizes[i], &us);
        if (rc == 0 && wk_comm_rank(comm) == 0)
            report(task->who, task->sizes[i], us);
    }
    if (!in_arena)
        free(data);
    wk_arena_free(arena);
    return rc;
}

/* As mpirun does with its ranks: each on a core of its own. */
static void bind_to_core(int rank)
{
    cpu_set_t all, one;
    int seen = 0;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < RANKS)
        return;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && seen++ == rank % CPU_COUNT(&all))
            CPU_SET(c, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* --- what the machine can do */

static int time_copy(const struct task *task, int rank)
{
    struct shared *s = task->shared;
    for (int i = 0; i < task->n; i++) {
        size_t bytes = task->sizes[i];
        char *from = malloc(bytes), *to = malloc(bytes);
        double batches[BATCHES];
        int calls = (int)(BATCH_US * 8e3 / (double)bytes) + 1;
        if (!from || !to)
            return 1;
        fill((float *)(void *)from, bytes / sizeof(float), rank);
        memset(to, 1, bytes);
        for (int b = 0; b < BATCHES; b++) {
            s->ready++;
            while (s->ready < RANKS * (i * BATCHES + b + 1))
                ;
            double from_us = now_us();
            for (int c = 0; c < calls; c++) {
                memcpy(to, from, bytes);
                __asm__ volatile("" ::"r"(to) : "memory");
            }
            batches[b] = (now_us() - from_us) / calls;
        }
        if (rank == 0)
            report("copy", bytes, median(batches, BATCHES));
        free(from);
        free(to);
    }
    return 0;
}

/* `bytes` out and `bytes` in over one socket. */
static int exchange(int fd, char *out, char *in, size_t bytes)
{
    size_t sent = 0, got = 0;
    while (sent < bytes || got < bytes) {
        ssize_t n = sent < bytes ? send(fd, out + sent, bytes - sent, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        ssize_t m = got < bytes ? recv(fd, in + got, bytes - got, MSG_DONTWAIT) : 0;
        got += m > 0 ? (size_t)m : 0;
        if ((n < 0 && errno != EAGAIN) || (m < 0 && errno != EAGAIN))
            return -1;
        if (n <= 0 && m <= 0) {
            struct pollfd wait = {fd, (short)(POLLIN | (sent < bytes ? POLLOUT : 0)), 0};
            (void)poll(&wait, 1, -1);
        }
    }
    return 0;
}

static int time_stream(const struct task *task, int fd, int rank)
{
    for (int i = 0; i < task->n; i++) {
        size_t bytes = task->sizes[i];
        char *out = malloc(bytes), *in = malloc(bytes);
        double batches[BATCHES];
        int calls = (int)(BATCH_US * 1e3 / (double)(bytes + 20000)) + 2;
        if (!out || !in)
            return 1;
        fill((float *)(void *)out, bytes / sizeof(float), rank);
        if (exchange(fd, out, in, bytes) != 0)
            return 1;
        for (int b = 0; b < BATCHES; b++) {
            double from_us = now_us();
            for (int c = 0; c < calls; c++)
                if (exchange(fd, out, in, bytes) != 0)
                    return 1;
            batches[b] = (now_us() - from_us) / calls;
        }
        if (rank == 0)
            report("stream", bytes, median(batches, BATCHES));
        free(out);
        free(in);
    }
    return 0;
}

static int connected_pair(int ret_fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(ret_fds[0], (struct sockaddr *)&address, length) != 0)
        return -1;
    ret_fds[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(ret_fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(ret_fds[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    }
    return 0;
}

/* --- two ranks */

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
    if (task->sizes) {
        rc = reduce_sizes(comm, task);
        if (rc != 0)
            fprintf(stderr, "rank %d: %s\n", options->rank, wk_comm_error(comm));
    } else {
        float one = 1;
        task->shared->ready++;
        if (options->rank == 1)
            pause();
        rc = all_reduce(comm, &one, 1) == WK_EPEER ? 0 : 1;
        task->shared->at_us = now_us();
    }
    wk_comm_close(comm);
    return rc != 0;
}

static int join(const pid_t *pids, int n, int killed)
{
    int bad = 0, status;
    for (int r = 0; r < n; r++) {
        bool ended = waitpid(pids[r], &status, 0) == pids[r];
        bad |= !ended || (r != killed && status != 0);
    }
    return bad;
}

static int run_ranks(const struct task *task, int ranks_per_host)
{
    struct comm_listener *listeners[RANKS_MAX];
    const char *endpoints[RANKS_MAX];
    int hosts[RANKS_MAX];
    pid_t pids[RANKS_MAX];
    bool kills = !task->sizes;
    for (int r = 0; r < task->world; r++) {
        if (comm_listen("127.0.0.1", &listeners[r], NULL) != 0)
            return 1;
        endpoints[r] = comm_listener_endpoint(listeners[r]);
        hosts[r] = r / ranks_per_host;
    }
    task->shared->ready = 0;
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
        if (pids[r] == 0)
            _exit(be_rank(listeners[r], &options, task));
    }
    for (int r = 0; r < task->world; r++)
        comm_listener_close(listeners[r]);
    double killed_us = 0;
    if (kills) {
        while (task->shared->ready < task->world)
            usleep(200);
        usleep(3000);
        killed_us = now_us();
        kill(pids[1], SIGKILL);
    }
    int bad = join(pids, task->world, kills ? 1 : -1);
    task->shared->took_us = task->shared->at_us - killed_us;
    return bad;
}

static int run_plain(const struct task *task)
{
    int fds[RANKS];
    pid_t pids[RANKS];
    bool streams = strcmp(task->who, "stream") == 0;
    if (streams && connected_pair(fds) != 0)
        return 1;
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        bind_to_core(r);
        _exit(streams ? time_stream(task, fds[r], r) : time_copy(task, r));
    }
    return join(pids, RANKS, -1);
}

static int run_kills(struct task *task, size_t kills)
{
    static double took[KILLS_MAX];
    int bad = 0;
    size_t n = kills < KILLS_MAX ? kills : KILLS_MAX;
    task->sizes = NULL;
    for (size_t i = 0; i < n && !bad; i++) {
        bad = run_ranks(task, RANKS);
        took[i] = task->shared->took_us;
    }
    if (!bad && n > 0) {
        double middle = median(took, n);
        report("kill", 0, middle);
        report("kill-worst", 0, took[n - 1]);
    }
    return bad;
}

int main(int argc, char **argv)
{
    size_t sizes[SIZES_MAX];
    struct task task = {.who = argc > 1 ? argv[1] : "", .world = RANKS, .sizes = sizes};
    for (int i = 2; i < argc && task.n < SIZES_MAX; i++)
        sizes[task.n++] = strtoul(argv[i], NULL, 10);
    task.shared =
        mmap(NULL, sizeof(*task.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (task.n == 0 || task.shared == MAP_FAILED) {
        fprintf(stderr,
                "usage: %s arena|shm|tcp|tcp2|tcp4|hosts|hosts-flat|stream|copy|kill BYTES...\n",
                argv[0]);
        return 2;
    }
    task.connections = strcmp(task.who, "tcp2") == 0 ? 2 : strcmp(task.who, "tcp4") == 0 ? 4 : 1;
    if (strcmp(task.who, "kill") == 0)
        return run_kills(&task, sizes[0]);
    if (strcmp(task.who, "stream") == 0 || strcmp(task.who, "copy") == 0)
        return run_plain(&task);
    if (strncmp(task.who, "hosts", 5) == 0) {
        task.world = 2 * RANKS;
        task.in_arena = strcmp(task.who, "hosts") == 0;
        return run_ranks(&task, RANKS);
    }
    task.in_arena = strcmp(task.who, "arena") == 0;
    return run_ranks(&task, strncmp(task.who, "tcp", 3) == 0 ? 1 : RANKS);
}
