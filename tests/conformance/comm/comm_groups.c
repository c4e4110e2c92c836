/* Groups by color, list and mesh axis; objects; padding; what a watcher sees; and that a group
 * shares its parent's end but keeps its own numbers and failures. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libworker/comm/comm.h"
#include "tests/conformance/comm/ranks.h"

enum { WORLD = 6, LATE = 2, PATIENCE_MS = 20000 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition,              \
                    wk_comm_error(comm));                                                          \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int sum_of(struct wk_comm *comm, int value)
{
    int32_t sum = value;
    return wk_all_reduce(comm, &sum, 1, WK_I32, WK_SUM, NULL) == 0 ? (int)sum : -1;
}

/* Rank 4 c + 2 b + a of a mesh {1.., 3, 2}: rows of two, columns of three. */
static int by_axis(struct wk_comm *comm, int rank)
{
    const int sizes[] = {3, 2};
    struct wk_mesh mesh = {sizes, 2};
    struct wk_comm *row, *column;
    CHECK(wk_comm_axis(comm, &mesh, 1, &row) == 0);
    CHECK(wk_comm_axis(comm, &mesh, 0, &column) == 0);
    CHECK(wk_comm_world(row) == 2 && wk_comm_rank(row) == rank % 2);
    CHECK(wk_comm_world(column) == 3 && wk_comm_rank(column) == rank / 2);
    CHECK(sum_of(row, rank) == (rank / 2) * 4 + 1);
    CHECK(sum_of(column, rank) == 6 + 3 * (rank % 2));
    wk_comm_close(row);
    wk_comm_close(column);
    const int wrong[] = {4, 2};
    CHECK(wk_comm_axis(comm, &(struct wk_mesh){wrong, 2}, 0, &row) == WK_EINVAL);
    return 0;
}

static int by_list(struct wk_comm *comm, int rank)
{
    const int list[] = {5, 0, 3};
    struct wk_comm *group = NULL;
    CHECK(wk_comm_subgroup(comm, list, 3, &group) == 0);
    bool member = rank == 5 || rank == 0 || rank == 3;
    CHECK((group != NULL) == member);
    if (member) {
        CHECK(list[wk_comm_rank(group)] == rank);
        CHECK(sum_of(group, rank) == 8);
    }
    wk_comm_close(group);
    return 0;
}

/* The group's operations are its own: the parent's numbers do not move. */
static int own_numbers(struct wk_comm *comm, int rank)
{
    struct wk_split split = {"even", rank % 2 == 0 ? 0 : -1, -rank};
    struct wk_comm *group = NULL;
    struct wk_comm_status status, group_status;
    CHECK(wk_comm_split(comm, &split, &group) == 0);
    wk_comm_status(comm, &status);
    uint64_t sequence = status.sequence;
    for (int i = 0; group && i < 5; i++)
        CHECK(sum_of(group, rank) == 6);
    wk_comm_status(comm, &status);
    CHECK(status.sequence == sequence && !status.running);
    if (group) {
        wk_comm_status(group, &group_status);
        CHECK(group_status.sequence == 4 && strcmp(group_status.name, "world/even") == 0);
        CHECK(strstr(group_status.operation, "all_reduce #4 (sum of 1 i32, 4 bytes)"));
        CHECK(wk_comm_rank(group) == 2 - rank / 2); /* by key, descending */
    }
    wk_comm_close(group);
    return 0;
}

static int objects(struct wk_comm *comm, int rank)
{
    char text[64];
    struct wk_bytes all[WORLD], one = {NULL, 0};
    snprintf(text, sizeof(text), "%.*s", rank, "abcdefgh");
    struct wk_bytes own = {text, (size_t)rank};
    CHECK(wk_all_gather_object(comm, &own, all) == 0);
    for (int p = 0; p < WORLD; p++)
        CHECK(all[p].bytes == (size_t)p && memcmp(all[p].data, "abcdefgh", (size_t)p) == 0);
    free(all[0].data);
    if (rank == 3)
        one = own;
    CHECK(wk_broadcast_object(comm, &one, 3) == 0);
    CHECK(one.bytes == 3 && memcmp(one.data, "abc", 3) == 0);
    if (rank != 3)
        free(one.data);
    float row[WORLD] = {1, 2, 3, 4, 5, 6}, pad = -1;
    size_t lengths[WORLD];
    struct wk_padded table;
    struct wk_buffers mine = {.in = row, .count = (size_t)rank, .dtype = WK_F32};
    CHECK(wk_all_gather_padded(comm, &mine, &pad, &table, lengths) == 0);
    CHECK(table.longest == WORLD - 1);
    for (int p = 0; p < WORLD; p++)
        for (int i = 0; i < WORLD - 1; i++)
            CHECK(((float *)table.table)[p * (WORLD - 1) + i] == (i < p ? (float)(i + 1) : -1));
    free(table.table);
    return 0;
}

struct watcher {
    struct wk_comm *comm;
    struct wk_comm_status status;
    _Atomic int *count;
};

/* What ranks share: how many have seen whom they wait for. The late ones come then. */
struct seen {
    _Atomic int watched, watched_in_a_group, summed, heard;
};

static bool await_count(_Atomic int *count, int wanted)
{
    for (int i = 0; i < PATIENCE_MS && *count < wanted; i++)
        usleep(1000);
    return *count >= wanted;
}

/* Until those that come late by intent are all that is waited for, and 20 ms longer. */
static void *watch(void *arg)
{
    struct watcher *watcher = arg;
    for (int i = 0; i < PATIENCE_MS; i++) {
        wk_comm_status(watcher->comm, &watcher->status);
        if (watcher->status.waiting_us > 20000 && watcher->status.waiting_count <= LATE)
            break;
        usleep(1000);
    }
    ++*watcher->count;
    return NULL;
}

/* Ranks 2 and 4 come late; the others can say so meanwhile. */
static int watched(struct wk_comm *comm, int rank, struct seen *seen)
{
    struct watcher watcher = {.comm = comm, .count = &seen->watched};
    pthread_t thread;
    CHECK(wk_barrier(comm, NULL) == 0);
    bool late = rank == 2 || rank == 4;
    if (late)
        CHECK(await_count(&seen->watched, WORLD - LATE));
    else
        pthread_create(&thread, NULL, watch, &watcher);
    CHECK(sum_of(comm, 1) == WORLD);
    if (late)
        return 0;
    pthread_join(thread, NULL);
    const struct wk_comm_status *status = &watcher.status;
    CHECK(status->running && strstr(status->operation, "all_reduce #"));
    CHECK(status->waiting_count == 2 && status->waiting[0] == 2 && status->waiting[1] == 4);
    struct wk_comm_statistics statistics;
    wk_comm_statistics(comm, &statistics);
    CHECK(strcmp(statistics.counters[0].name, "all_reduce") == 0);
    CHECK(statistics.counters[0].calls > 0 && statistics.counters[0].wait_s > 0.02);
    return 0;
}

static void *watch_all(void *arg)
{
    struct watcher *watcher = arg;
    for (int i = 0; i < PATIENCE_MS; i++) {
        comm_longest_wait(watcher->comm, &watcher->status);
        if (watcher->status.waiting_us > 20000)
            break;
        usleep(1000);
    }
    ++*watcher->count;
    return NULL;
}

/* A wait in a group of a group is told with the ranks that the outermost communicator gives. */
static int watched_in_a_group(struct wk_comm *comm, int rank, struct seen *seen)
{
    struct watcher watcher = {.comm = comm, .count = &seen->watched_in_a_group};
    struct wk_split split = {"half", rank / 3, 0}, pairs = {"pair", rank % 3 > 0, 0};
    struct wk_comm *half, *pair;
    pthread_t thread;
    CHECK(wk_comm_split(comm, &split, &half) == 0);
    CHECK(wk_comm_split(half, &pairs, &pair) ==
          0); /* 4 and 5 are 1 and 2 of 3, then 0 and 1 of 2 */
    if (rank == 5)
        CHECK(await_count(&seen->watched_in_a_group, 1));
    if (rank == 4)
        pthread_create(&thread, NULL, watch_all, &watcher);
    CHECK(wk_barrier(pair, NULL) == 0);
    if (rank == 4) {
        pthread_join(thread, NULL);
        CHECK(watcher.status.waiting_count == 1 && watcher.status.waiting[0] == 5);
        CHECK(strcmp(watcher.status.name, "world/half/pair") == 0);
    }
    wk_comm_close(pair);
    wk_comm_close(half);
    return 0;
}

/* A failing group does not fail its parent; a failing parent fails its groups. */
static int failures(struct wk_comm *comm, int rank, struct seen *seen)
{
    struct wk_split split = {"half", rank / 3, 0};
    struct wk_comm *first, *second;
    CHECK(wk_comm_split(comm, &split, &first) == 0);
    CHECK(wk_comm_split(comm, &split, &second) == 0);
    if (rank == 1)
        wk_comm_abort(first);
    int rc = wk_barrier(first, NULL);
    CHECK(rank / 3 == 0 ? rc == WK_EABORT : rc == 0);
    CHECK(sum_of(comm, 1) == WORLD);
    CHECK(sum_of(second, 1) == 3);
    seen->summed++;
    /* Whoever waits in a group or in the parent hears of it; 5 never comes. */
    if (rank == 5) {
        CHECK(await_count(&seen->summed, WORLD));
        usleep(30000); /* most of them wait by then */
        wk_comm_abort(comm);
        CHECK(await_count(&seen->heard, WORLD - 1));
    } else if (rank >= 3) {
        CHECK(wk_barrier(second, NULL) == WK_EABORT);
    } else {
        CHECK(wk_barrier(comm, NULL) == WK_EABORT);
        CHECK(wk_barrier(second, NULL) == WK_EABORT);
    }
    seen->heard++;
    wk_comm_close(first);
    wk_comm_close(second);
    return 0;
}

static int be_rank(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct seen *seen = ranks->arg;
    if (rc != 0)
        return 1;
    return by_axis(comm, rank) || by_list(comm, rank) || own_numbers(comm, rank) ||
           objects(comm, rank) || watched(comm, rank, seen) ||
           watched_in_a_group(comm, rank, seen) || failures(comm, rank, seen);
}

int main(int argc, char **argv)
{
    int bad = 0;
    bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    for (int h = HOSTS_SHARED; h <= HOSTS_MIXED; h++) {
        struct ranks ranks = {.kind = threads ? RANKS_THREADS : RANKS_PROCESSES,
                              .hosts = (enum ranks_hosts)h,
                              .world = WORLD,
                              .timeout_ms = PATIENCE_MS,
                              .generation = 7,
                              .wrong_secret_of = -1,
                              .arg = ranks_shared(sizeof(struct seen))};
        int failed = ranks_run(&ranks, be_rank);
        printf("%-5s: %s\n", ranks_hosts_name(ranks.hosts), failed ? "FAILED" : "ok");
        bad += failed;
    }
    return bad != 0;
}
