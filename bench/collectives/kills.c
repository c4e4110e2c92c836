/* From the end of a rank to the error at the others, over and over.
 *
 *     bench_collectives_kills kill|abort|blocked N
 *
 * kill: ranks that never stop reducing (8 B, 1 MiB in an arena), one gets SIGKILL at some
 * moment; abort: it calls wk_comm_abort between two of them; blocked: the others already wait for
 * the one that is killed. Worlds of 2, the cores being two. One JSON line per quantile: {"who":
 * "kill-median", "bytes": 0, "us"}, and -p95, -p99, -max.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/collectives/timing.h"
#include "bench/collectives/values.h"
#include "libworker/comm/comm.h"

enum { RANKS = 2, VICTIM = 1, COUNT = 1 << 18, KILLS_MAX = 1000, SETTLE_US = 2000, REST_US = 2000 };

enum how { HOW_KILL, HOW_ABORT, HOW_BLOCKED, HOWS };
static const char *const names[HOWS] = {"kill", "abort", "blocked"};

struct shared {
    enum how how;
    _Atomic int ready, now;
    double from_us, until_us; /* of the abort; of the error */
    int code;
};

static int reduce_until_it_fails(struct wk_comm *comm, float *large, struct shared *s, bool victim)
{
    float small[2] = {1, 2};
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        if (victim && s->how == HOW_ABORT && s->now) {
            s->from_us = now_us();
            wk_comm_abort(comm);
        }
        rc = i % 4 == 3 ? wk_all_reduce(comm, large, COUNT, WK_F32, WK_MAX, NULL)
                        : wk_all_reduce(comm, small, 2, WK_F32, WK_MAX, NULL);
    }
    return rc;
}

static int be_rank(struct comm_listener *listener, const struct comm_options *options,
                   struct shared *s)
{
    struct wk_comm *comm;
    struct wk_arena *arena;
    bool victim = options->rank == VICTIM;
    if (comm_connect(listener, options, &comm, NULL) != 0 ||
        wk_arena_new(COUNT * sizeof(float), &arena) != 0 || wk_comm_register(comm, arena) != 0)
        return 1;
    bind_to_core(options->rank);
    float *large = wk_arena_data(arena);
    values_fill(large, COUNT, options->rank);
    int rc = wk_all_reduce(comm, large, COUNT, WK_F32, WK_MAX, NULL);
    s->ready++;
    if (victim && s->how == HOW_BLOCKED)
        pause();
    if (rc == 0)
        rc = reduce_until_it_fails(comm, large, s, victim);
    if (!victim) {
        s->until_us = now_us();
        s->code = rc;
    }
    wk_comm_close(comm);
    wk_arena_free(arena);
    return 0;
}

/* Microseconds, or less than 0. */
static double once(struct shared *s, enum how how, useconds_t round)
{
    struct comm_listener *listeners[RANKS];
    const char *endpoints[RANKS];
    const int hosts[RANKS] = {0, 0};
    pid_t pids[RANKS];
    *s = (struct shared){.how = how};
    for (int r = 0; r < RANKS; r++) {
        if (comm_listen("127.0.0.1", &listeners[r], NULL) != 0)
            return -1;
        endpoints[r] = comm_listener_endpoint(listeners[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        struct comm_options options = {.rank = r,
                                       .world = RANKS,
                                       .endpoints = endpoints,
                                       .hosts = hosts,
                                       .generation = 1,
                                       .timeout_ms = 10000};
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(be_rank(listeners[r], &options, s));
    }
    for (int r = 0; r < RANKS; r++)
        comm_listener_close(listeners[r]);
    while (s->ready < RANKS)
        usleep(100);
    usleep(SETTLE_US + round * 7919 % SETTLE_US);
    double from_us = now_us();
    s->now = 1;
    if (how != HOW_ABORT)
        kill(pids[VICTIM], SIGKILL);
    for (int r = 0; r < RANKS; r++)
        waitpid(pids[r], NULL, 0);
    if (s->code != (how == HOW_ABORT ? WK_EABORT : WK_EPEER))
        return -1;
    return s->until_us - (how == HOW_ABORT ? s->from_us : from_us);
}

int main(int argc, char **argv)
{
    static double took[KILLS_MAX];
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    int how = 0;
    while (how < HOWS && (argc < 2 || strcmp(names[how], argv[1]) != 0))
        how++;
    if (how == HOWS || n == 0 || n > KILLS_MAX || s == MAP_FAILED) {
        fprintf(stderr, "usage: %s kill|abort|blocked N (at most %d)\n", argv[0], KILLS_MAX);
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        took[i] = once(s, (enum how)how, (useconds_t)i);
        if (took[i] < 0)
            return 1;
        /* With a real-time priority the kernel stops who never rests, for 50 ms. */
        usleep(REST_US);
    }
    static const struct {
        const char *name;
        double at;
    } quantiles[] = {{"median", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
        char who[32];
        snprintf(who, sizeof(who), "%s-%s", names[how], quantiles[q].name);
        report(who, 0, quantile(took, n, quantiles[q].at));
    }
    return 0;
}
