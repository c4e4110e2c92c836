/* Ranks that know only rank 0's address find each other. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libworker/comm/bootstrap.h"
#include "libworker/comm/bootstrap_protocol.h"
#include "libworker/comm/comm.h"
#include "tests/lib/held_port.h"
#include "tests/lib/loopback.h"

enum { WORLD = 5, HANG_MS = 300000 /* only what hangs takes so long */ };

/* A clock that runs slowly, so that no rank is late, until all that are expected have told rank 0
 * of themselves: then rank 0's time is over, and when it has ended that of the others. */
static struct {
    bool is_slow;
    struct timespec since;
    _Atomic int64_t ahead_ms;
    _Atomic unsigned came, expected; /* bits of ranks */
} late;
enum { SLOWER = 100, SERVES_MS = 400, ASKS_MS = 10000 };

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = __real_clock_gettime(id, ret);
    if (rc != 0 || !late.is_slow)
        return rc;
    int64_t since_ns = ns_of(&late.since), passed_ns = (ns_of(ret) - since_ns) / SLOWER;
    int64_t now_ns = since_ns + passed_ns + late.ahead_ms * 1000000;
    *ret = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}

ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    ssize_t n = __real_recv(fd, bytes, size, flags);
    struct bootstrap_entry entry;
    if (!late.is_slow || n != sizeof(entry))
        return n;
    memcpy(&entry, bytes, sizeof(entry));
    unsigned bit = 1U << (entry.rank & 31);
    unsigned came = atomic_fetch_or(&late.came, bit) | bit;
    if ((came & late.expected) == late.expected)
        late.ahead_ms = 2 * SERVES_MS;
    return n;
}

struct rank {
    pthread_t thread;
    struct comm_bootstrap_options options;
    struct comm_table table;
    struct error err;
    int rc;
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct comm_listener *listener;
    r->rc = comm_listen("127.0.0.1", &listener, &r->err);
    if (r->rc != 0)
        return NULL;
    r->options.endpoint = comm_listener_endpoint(listener);
    r->rc = comm_bootstrap(&r->options, &r->table, &r->err);
    if (late.is_slow && r->options.rank == 0)
        late.ahead_ms = 2 * ASKS_MS;
    if (r->rc == 0) {
        struct wk_comm *comm = NULL;
        struct comm_options options = {.rank = r->options.rank,
                                       .world = r->options.world,
                                       .endpoints = r->table.endpoint_list,
                                       .hosts = r->table.hosts,
                                       .generation = r->table.generation,
                                       .timeout_ms = HANG_MS};
        int32_t sum = 1 << r->options.rank;
        memcpy(options.secret, r->table.secret, sizeof(options.secret));
        r->rc = comm_connect(listener, &options, &comm, &r->err);
        if (r->rc == 0)
            r->rc = wk_all_reduce(comm, &sum, 1, WK_I32, WK_SUM, NULL);
        if (r->rc == 0 && sum != (1 << r->options.world) - 1)
            r->rc = WK_EINTERNAL;
        wk_comm_close(comm);
    }
    comm_listener_close(listener);
    return NULL;
}

static void start(struct rank *rank, int port)
{
    rank->options.master_addr = loopback_own();
    rank->options.master_port = port;
    pthread_create(&rank->thread, NULL, rank_main, rank);
}

/* Ranks as prepared, all at once. */
static void run_all(struct rank *ranks, int port, int count)
{
    for (int i = 0; i < count; i++)
        start(&ranks[i], port);
    for (int i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
}

static void run(struct rank *ranks, int port, int count)
{
    for (int r = 0; r < count; r++) {
        ranks[r].options.rank = r;
        ranks[r].options.world = WORLD;
        start(&ranks[r], port);
    }
    for (int r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
}

Test(bootstrap, finds_everybody_even_when_the_port_is_taken)
{
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = held_port(&fd);
    for (int r = 0; r < WORLD; r++)
        ranks[r].options.host = r == 3 ? "elsewhere" : NULL;
    run(ranks, port, WORLD);
    for (int r = 0; r < WORLD; r++) {
        cr_assert_eq(ranks[r].rc, 0, "rank %d: %s", r, ranks[r].err.text);
        cr_assert_eq(ranks[r].table.hosts[r], r == 3 ? 3 : 0);
        cr_assert_eq(memcmp(ranks[r].table.secret, ranks[0].table.secret, 32), 0);
    }
    for (int r = 0; r < WORLD; r++)
        comm_table_fini(&ranks[r].table);
    close(fd);
}

/* Of `count` ranks rank 0 gives up when those of `expected`, bits, have come. */
static void run_late(struct rank *ranks, int port, int count, unsigned expected)
{
    for (int r = 0; r < count; r++)
        ranks[r].options.timeout_ms = r == 0 ? SERVES_MS : ASKS_MS;
    __real_clock_gettime(CLOCK_MONOTONIC, &late.since);
    late.expected = expected;
    late.is_slow = true;
    run(ranks, port, count);
}

Test(bootstrap, names_who_did_not_come)
{
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = held_port(&fd);
    close(fd);
    run_late(ranks, port, 3, 1 << 1 | 1 << 2);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    cr_assert(strstr(ranks[0].err.text, "rank 3, 4 did not connect"), "%s", ranks[0].err.text);
    cr_assert_eq(ranks[1].rc, WK_ETIMEOUT, "%s", ranks[1].err.text);
}

Test(bootstrap, another_secret_stays_outside)
{
    static const uint8_t right[COMM_SECRET_BYTES] = {1}, wrong[COMM_SECRET_BYTES] = {2};
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = held_port(&fd);
    close(fd);
    for (int r = 0; r < WORLD; r++)
        ranks[r].options.secret = r == 4 ? wrong : right;
    run_late(ranks, port, WORLD, 1 << 1 | 1 << 2 | 1 << 3);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    cr_assert(strstr(ranks[0].err.text, "rank 4 did not connect"), "%s", ranks[0].err.text);
}

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

static bool cancelled(void *arg)
{
    return ++*(int *)arg > 3;
}

/* Rank 0 waits for the others, rank 1 for a rank 0 that is not there and for one that waits too. */
Test(bootstrap, who_waits_can_be_called_away)
{
    int fd, port = held_port(&fd), asked[3] = {0};
    struct rank ranks[3];
    for (int i = 0; i < 3; i++) {
        ranks[i] = (struct rank){.options = {.rank = i > 0,
                                             .world = i ? 3 : 2,
                                             .master_addr = loopback_own(),
                                             .master_port = port + 20 * (i == 0),
                                             .cancelled = cancelled,
                                             .cancelled_arg = &asked[i]}};
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(ranks[i].thread, NULL);
        cr_expect_eq(ranks[i].rc, WK_EABORT, "rank %d: %s", i, ranks[i].err.text);
    }
    close(fd);
}

struct heard {
    int count;
    char text[512];
};

static void hear(void *arg, const char *text)
{
    struct heard *heard = arg;
    heard->count++;
    snprintf(heard->text, sizeof(heard->text), "%s", text);
}

/* By rank 0, which knows it at once, and again by those whom it keeps waiting. */
Test(bootstrap, a_port_that_another_program_holds_is_said)
{
    struct heard heard = {.count = 0};
    char expected[96];
    int fd, port = held_port(&fd);
    struct rank ranks[] = {
        {.options = {.rank = 0, .world = 2, .timeout_ms = 100, .remark = hear}},
        {.options = {.rank = 1, .world = 3, .timeout_ms = 900}},
    };
    ranks[0].options.remark_arg = &heard;
    run_all(ranks, port, 1);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    snprintf(expected, sizeof(expected), "MASTER_PORT %d is in use", port);
    cr_assert_eq(heard.count, 1);
    cr_assert(strstr(heard.text, expected), "%s", heard.text);
    cr_assert(strstr(ranks[0].err.text, "is in use: rank 0 listened on port"), "%s",
              ranks[0].err.text);
    run_all(&ranks[1], port, 1);
    snprintf(expected, sizeof(expected), "port %d is held by another program", port);
    cr_assert(strstr(ranks[1].err.text, expected), "%s", ranks[1].err.text);
    close(fd);
}

/* torchrun's own store holds the port of every training that it starts. */
Test(bootstrap, a_port_that_the_launcher_holds_is_no_news)
{
    struct heard heard = {.count = 0};
    int fd, port = held_port(&fd);
    struct rank ranks[2];
    for (int r = 0; r < 2; r++)
        ranks[r] = (struct rank){.options = {.rank = r,
                                             .world = 2,
                                             .timeout_ms = HANG_MS,
                                             .port_is_shared = true,
                                             .remark = hear,
                                             .remark_arg = &heard}};
    run_all(ranks, port, 2);
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(ranks[r].rc, 0, "rank %d: %s", r, ranks[r].err.text);
        comm_table_fini(&ranks[r].table);
    }
    cr_assert_eq(heard.count, 0);
    close(fd);
}

/* Three trainings at once, two of them of one size. Their ranks sit in no order. */
Test(bootstrap, trainings_with_names_of_their_own_share_a_port)
{
    enum { RANKS = 7 };
    static const struct {
        const char *run;
        int rank, world;
    } all[RANKS] = {{"b", 1, 2}, {"a", 1, 2}, {"a", 2, 3}, {"a", 1, 3},
                    {"a", 0, 2}, {"b", 0, 2}, {"a", 0, 3}};
    struct rank ranks[RANKS];
    int fd, port = held_port(&fd);
    close(fd);
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank){.options = {.rank = all[i].rank,
                                             .world = all[i].world,
                                             .run = all[i].run,
                                             .timeout_ms = HANG_MS}};
    run_all(ranks, port, RANKS);
    for (int i = 0; i < RANKS; i++)
        cr_assert_eq(ranks[i].rc, 0, "%d: %s", i, ranks[i].err.text);
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < RANKS; k++) {
            bool same = all[i].world == all[k].world && strcmp(all[i].run, all[k].run) == 0;
            cr_assert_eq(ranks[i].table.generation == ranks[k].table.generation, same);
        }
    for (int i = 0; i < RANKS; i++)
        comm_table_fini(&ranks[i].table);
}

/* Neither rank 0 can know whose rank 1 comes: both give up, and tell those who came. */
Test(bootstrap, two_trainings_that_nothing_tells_apart_are_both_refused)
{
    struct rank ranks[3];
    int fd, port = held_port(&fd);
    close(fd);
    for (int i = 0; i < 3; i++)
        ranks[i] = (struct rank){.options = {.rank = i / 2, .world = 3, .timeout_ms = HANG_MS}};
    run_all(ranks, port, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ranks[i].rc, WK_EINVAL, "%d: %s", i, ranks[i].err.text);
        cr_assert(strstr(ranks[i].err.text, "another MASTER_PORT for each training"), "%s",
                  ranks[i].err.text);
    }
}

/* A process of another training, or one with the number of another. */
Test(bootstrap, a_rank_comes_once)
{
    struct rank ranks[3];
    int fd, port = held_port(&fd);
    close(fd);
    /* Rank 2 does not come, so that both ranks 1 are there together. */
    for (int i = 0; i < 3; i++)
        ranks[i] = (struct rank){.options = {.rank = i > 0, .world = 3, .timeout_ms = HANG_MS}};
    run_all(ranks, port, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ranks[i].rc, WK_EINVAL, "%d: %s", i, ranks[i].err.text);
        cr_assert(strstr(ranks[i].err.text, "as rank 1"), "%s", ranks[i].err.text);
    }
}

Test(bootstrap, a_training_of_another_size_on_the_port_is_named)
{
    struct rank ranks[2] = {{.rc = 0}};
    atomic_bool over = false;
    int fd, port = held_port(&fd);
    close(fd);
    ranks[0] = (struct rank){.options = {.rank = 0,
                                         .world = 2,
                                         .run = "Slurm 7.0",
                                         .timeout_ms = HANG_MS,
                                         .cancelled = is_set,
                                         .cancelled_arg = &over}};
    start(&ranks[0], port);
    /* It is there as long as the other looks, and that takes as long as it is there. */
    for (int ms = 1500; !strstr(ranks[1].err.text, "another training") && ms < HANG_MS; ms *= 2) {
        ranks[1] =
            (struct rank){.options = {.rank = 1, .world = 3, .run = "Slurm 7.0", .timeout_ms = ms}};
        run_all(&ranks[1], port, 1);
        cr_assert_eq(ranks[1].rc, WK_ETIMEOUT);
    }
    atomic_store(&over, true);
    pthread_join(ranks[0].thread, NULL);
    cr_assert(strstr(ranks[1].err.text, "is held by another training of 2 ranks (Slurm 7.0)"), "%s",
              ranks[1].err.text);
}
