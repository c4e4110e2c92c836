/* A campaign: ranks that never stop reducing, one of them killed or aborting at a random moment,
 * over and over. Every survivor must hear of it, and nothing may be left behind. And a rank
 * that is stopped in the middle must not write into the others' memory when it goes on.
 *
 * Usage: comm_kills [kills [seed]], 20 kills by default. Prints the latencies.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/comm/ranks.h"

enum { KILLS_MAX = 1000, COUNT = 1 << 19, STOP_TIMEOUT_MS = 150 };

struct shared {
    _Atomic int ready;
    _Atomic int aborts; /* the rank that aborts when told to, or -1 */
    _Atomic int now;
    _Atomic int failed, checked;
    double aborted_ms;
    double at_ms[RANKS_MAX];
    int code[RANKS_MAX];
    uint64_t mix;
};

struct figures {
    double worst[KILLS_MAX];
    int n;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A mixture of small ones, large ones in an arena, and large ones outside. */
static int one_of_many(struct wk_comm *comm, float *arena, float *plain, uint64_t which)
{
    float small[4] = {0};
    switch (which % 5) {
    case 0:
        return wk_all_reduce(comm, small, 4, WK_F32, WK_SUM, NULL);
    case 1:
        return wk_all_reduce(comm, arena, COUNT, WK_F32, WK_MAX, NULL);
    case 2:
        return wk_all_reduce(comm, plain, COUNT, WK_F32, WK_MAX, NULL);
    case 3:
        return wk_broadcast(comm, arena, COUNT, WK_F32, 0, NULL);
    default:
        return wk_barrier(comm, NULL);
    }
}

static int reduce_for_ever(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    struct wk_arena *arena;
    uint64_t random = s->mix;
    if (rc != 0 || wk_arena_new(COUNT * sizeof(float), &arena) != 0)
        return 1;
    float *plain = calloc(COUNT, sizeof(*plain));
    rc = wk_comm_register(comm, arena);
    s->ready++;
    while (rc == 0) {
        if (s->aborts == rank && s->now) {
            s->aborted_ms = ranks_now_ms();
            wk_comm_abort(comm);
        }
        rc = one_of_many(comm, wk_arena_data(arena), plain, next_random(&random));
    }
    s->at_ms[rank] = ranks_now_ms();
    s->code[rank] = rc;
    wk_arena_free(arena);
    free(plain);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_figures(const char *what, struct figures *f)
{
    if (f->n == 0)
        return;
    qsort(f->worst, (size_t)f->n, sizeof(f->worst[0]), by_value);
    printf("%s: %d times; until the last survivor knew: median %.2f ms, 95 %% %.2f ms, 99 %% "
           "%.2f ms, worst %.2f ms\n",
           what, f->n, f->worst[f->n / 2], f->worst[f->n * 95 / 100], f->worst[f->n * 99 / 100],
           f->worst[f->n - 1]);
}

static int one_end(struct shared *s, uint64_t *random, struct figures *kills,
                   struct figures *aborts)
{
    struct ranks ranks = {.kind = RANKS_PROCESSES,
                          .hosts = (enum ranks_hosts)(next_random(random) % 3),
                          .world = 2 + (int)(next_random(random) % 3),
                          .timeout_ms = 60000, /* WK_ETIMEOUT: it was not noticed */
                          .generation = 9,
                          .wrong_secret_of = -1,
                          .arg = s};
    struct ranks_started started;
    bool kills_one = next_random(random) % 4 != 0;
    int victim = (int)(next_random(random) % (uint64_t)ranks.world);
    memset(s, 0, sizeof(*s));
    s->aborts = kills_one ? -1 : victim;
    s->mix = next_random(random) | 1;
    ranks_start(&ranks, reduce_for_ever, &started);
    while (s->ready < ranks.world)
        usleep(500);
    usleep((useconds_t)(next_random(random) % 30000));
    double from_ms = ranks_now_ms(), worst_ms = 0;
    s->now = 1;
    if (kills_one)
        kill(started.pids[victim], SIGKILL);
    int ended_badly = ranks_join(&started);
    if (!kills_one)
        from_ms = s->aborted_ms;
    int bad = ended_badly != (kills_one ? 1 : 0);
    for (int r = 0; r < ranks.world; r++) {
        if (kills_one && r == victim)
            continue;
        bad |= s->code[r] != (kills_one ? WK_EPEER : WK_EABORT);
        double took_ms = s->at_ms[r] - from_ms;
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    if (bad)
        printf("FAILED: %s of %d in a world of %d over %s: %.1f ms, codes %d %d %d %d\n",
               kills_one ? "kill" : "abort", victim, ranks.world, ranks_hosts_name(ranks.hosts),
               worst_ms, s->code[0], s->code[1], s->code[2], s->code[3]);
    struct figures *f = kills_one ? kills : aborts;
    f->worst[f->n++] = worst_ms;
    return bad;
}

/* --- stopped while it writes into a peer's arena, and let go when that peer has moved on */

static int give_up_on_a_stopped_rank(struct wk_comm *comm, int rank, int rc,
                                     const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    struct wk_arena *arena;
    if (rc != 0 || wk_arena_new((size_t)COUNT * 16, &arena) != 0)
        return 1;
    float *data = wk_arena_data(arena);
    size_t count = (size_t)COUNT * 4;
    rc = wk_comm_register(comm, arena);
    s->ready++;
    while (rc == 0)
        rc = wk_all_reduce(comm, data, count, WK_F32, WK_MAX, NULL);
    if (rank != 0)
        return 0;
    data[1] = 3; /* content stays */
    wk_comm_close(comm);
    for (size_t i = 0; i < count; i++)
        data[i] = i == 1 ? data[i] : 7;
    s->failed = 1;
    while (!s->checked)
        usleep(500);
    rc = data[1] != 3;
    for (size_t i = 2; i < count; i++)
        rc |= data[i] != 7;
    _exit(rc);
}

static int stopped(struct shared *s, uint64_t *random)
{
    struct ranks ranks = {.kind = RANKS_PROCESSES,
                          .hosts = HOSTS_SHARED,
                          .world = 2,
                          .timeout_ms = STOP_TIMEOUT_MS,
                          .generation = 9,
                          .wrong_secret_of = -1,
                          .arg = s};
    struct ranks_started started;
    memset(s, 0, sizeof(*s));
    ranks_start(&ranks, give_up_on_a_stopped_rank, &started);
    while (s->ready < ranks.world)
        usleep(500);
    usleep(5000 + (useconds_t)(next_random(random) % 10000));
    kill(started.pids[1], SIGSTOP);
    for (int i = 0; i < 2000 && !s->failed; i++)
        usleep(1000);
    kill(started.pids[1], SIGCONT);
    usleep(30000);
    s->checked = 1;
    int bad = ranks_join(&started);
    if (bad)
        printf("FAILED: a stopped rank wrote into memory that had moved on\n");
    return bad;
}

static int left_behind(void)
{
    int bad = waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int fds = 0;
    while (dir && (entry = readdir(dir)))
        fds += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    if (bad || fds > 8)
        printf("FAILED: left behind: %d descriptors%s\n", fds, bad ? ", a process" : "");
    return bad || fds > 8;
}

int main(int argc, char **argv)
{
    long kills = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252u;
    static struct figures killed, aborted;
    struct shared *s = ranks_shared(sizeof(*s));
    int bad = 0;
    for (long i = 0; i < kills && i < KILLS_MAX; i++)
        bad += one_end(s, &random, &killed, &aborted);
    for (int i = 0; i < 5; i++)
        bad += stopped(s, &random);
    bad += left_behind();
    print_figures("SIGKILL", &killed);
    print_figures("abort", &aborted);
    printf(bad ? "%d FAILED\n" : "all ok\n", bad);
    return bad != 0;
}
