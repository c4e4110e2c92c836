/* Arenas that ranks hear of while another of their threads listens too: any thread may ask who was
 * lost, which takes what has been said, the memory of arenas included. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libworker/comm/comm.h"
#include "tests/conformance/comm/ranks.h"

enum { WORLD = 2, ARENAS = 60, COUNT = 16384, PATIENCE_MS = 20000 };

struct asker {
    struct wk_comm *comm;
    _Atomic bool over;
    int lost;
};

static void *ask(void *arg)
{
    struct asker *asker = arg;
    int rank;
    while (!atomic_load(&asker->over))
        asker->lost += wk_comm_lost(asker->comm, &rank, 1);
    return NULL;
}

static int sum_in(struct wk_comm *comm, struct wk_arena *arena, int value)
{
    int32_t *data = wk_arena_data(arena);
    for (int i = 0; i < COUNT; i++)
        data[i] = value + i;
    if (wk_comm_register(comm, arena) != 0 ||
        wk_all_reduce(comm, data, COUNT, WK_I32, WK_SUM, NULL) != 0)
        return 1;
    for (int i = 0; i < COUNT; i++)
        if (data[i] != 1 + 2 * (value - wk_comm_rank(comm) + i))
            return 1;
    return 0;
}

/* Small enough for a post: in place only where all have arenas, and the same sums anyhow. */
static int small_sums(struct wk_comm *comm, struct wk_arena *arena, int rank)
{
    static const int counts[] = {256, 257, 1000, 2038};
    int32_t apart[2048] = {0}, *with = wk_arena_data(arena);
    for (int i = 0; i < 4 * 4; i++) {
        int32_t *data = (i & (1 << rank)) != 0 ? with : apart;
        int count = counts[i / 4];
        for (int e = 0; e < count; e++)
            data[e] = rank + e;
        if (wk_all_reduce(comm, data, (size_t)count, WK_I32, WK_SUM, NULL) != 0)
            return 1;
        for (int e = 0; e < count; e++)
            if (data[e] != 1 + 2 * e)
                return 1;
    }
    return 0;
}

static int be_rank(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct wk_arena *arenas[ARENAS] = {NULL};
    struct asker asker = {.comm = comm};
    struct wk_comm_statistics statistics;
    pthread_t thread;
    int bad = rc;
    uint64_t in_place = sysconf(_SC_NPROCESSORS_ONLN) < WORLD ? 0 : 3;
    (void)ranks;
    if (rc != 0 || pthread_create(&thread, NULL, ask, &asker) != 0)
        return 1;
    for (int i = 0; i < ARENAS && !bad; i++)
        bad = wk_arena_new(COUNT * sizeof(int32_t), &arenas[i]) != 0 ||
              sum_in(comm, arenas[i], 1000 * i + rank) != 0;
    if (bad)
        fprintf(stderr, "rank %d: %s\n", rank, wk_comm_error(comm));
    bad |= small_sums(comm, arenas[0], rank);
    atomic_store(&asker.over, true);
    pthread_join(thread, NULL);
    wk_comm_statistics(comm, &statistics);
    for (int i = 0; i < ARENAS; i++)
        wk_arena_free(arenas[i]);
    return bad || asker.lost || statistics.in_place != ARENAS + in_place;
}

int main(int argc, char **argv)
{
    bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    struct ranks ranks = {.kind = threads ? RANKS_THREADS : RANKS_PROCESSES,
                          .hosts = HOSTS_SHARED,
                          .world = WORLD,
                          .timeout_ms = PATIENCE_MS,
                          .generation = 1,
                          .wrong_secret_of = -1};
    int failed = ranks_run(&ranks, be_rank);
    printf("%d arenas of each rank: %s\n", ARENAS, failed ? "FAILED" : "ok");
    return failed != 0;
}
