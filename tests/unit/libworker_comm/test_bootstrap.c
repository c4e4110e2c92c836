/* Ranks that know only rank 0's address find each other. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/comm.h"

enum { WORLD = 5 };

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
    if (r->rc == 0) {
        struct wk_comm *comm = NULL;
        struct comm_options options = {.rank = r->options.rank,
                                       .world = r->options.world,
                                       .endpoints = r->table.endpoint_list,
                                       .hosts = r->table.hosts,
                                       .generation = r->table.generation,
                                       .timeout_ms = 5000};
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

/* A port that something else holds and never speaks on, as torchrun's store does. */
static int occupied_port(int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    *ret_fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(*ret_fd, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(*ret_fd, 16), 0);
    cr_assert_eq(getsockname(*ret_fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

/* Ranks as prepared, all at once. */
static void run_all(struct rank *ranks, int port, int count)
{
    for (int i = 0; i < count; i++) {
        ranks[i].options.master_addr = "127.0.0.1";
        ranks[i].options.master_port = port;
        pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
    }
    for (int i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
}

static void run(struct rank *ranks, int port, int count)
{
    for (int r = 0; r < count; r++) {
        ranks[r].options.rank = r;
        ranks[r].options.world = WORLD;
        ranks[r].options.master_addr = "127.0.0.1";
        ranks[r].options.master_port = port;
        pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
}

Test(bootstrap, finds_everybody_even_when_the_port_is_taken)
{
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = occupied_port(&fd);
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

Test(bootstrap, names_who_did_not_come)
{
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = occupied_port(&fd);
    close(fd);
    for (int r = 0; r < WORLD; r++)
        ranks[r].options.timeout_ms = r == 0 ? 400 : 700;
    run(ranks, port, 3);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    cr_assert(strstr(ranks[0].err.text, "rank 3, 4 did not come"), "%s", ranks[0].err.text);
    cr_assert_eq(ranks[1].rc, WK_ETIMEOUT, "%s", ranks[1].err.text);
}

Test(bootstrap, another_secret_stays_outside)
{
    static const uint8_t right[COMM_SECRET_BYTES] = {1}, wrong[COMM_SECRET_BYTES] = {2};
    struct rank ranks[WORLD] = {{.rc = 0}};
    int fd, port = occupied_port(&fd);
    close(fd);
    for (int r = 0; r < WORLD; r++) {
        ranks[r].options.timeout_ms = r == 0 ? 400 : 700;
        ranks[r].options.secret = r == 4 ? wrong : right;
    }
    run(ranks, port, WORLD);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    cr_assert(strstr(ranks[0].err.text, "rank 4 did not come"), "%s", ranks[0].err.text);
}

static bool cancelled(void *arg)
{
    return ++*(int *)arg > 3;
}

/* Rank 0 waits for the others, rank 1 for a rank 0 that is not there and for one that waits too. */
Test(bootstrap, who_waits_can_be_called_away, .timeout = 30)
{
    int fd, port = occupied_port(&fd), asked[3] = {0};
    struct rank ranks[3];
    for (int i = 0; i < 3; i++) {
        ranks[i] = (struct rank){.options = {.rank = i > 0,
                                             .world = i ? 3 : 2,
                                             .master_addr = "127.0.0.1",
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
    int fd, port = occupied_port(&fd);
    struct rank ranks[] = {
        {.options = {.rank = 0, .world = 2, .timeout_ms = 100, .remark = hear}},
        {.options = {.rank = 1, .world = 3, .timeout_ms = 900}},
    };
    ranks[0].options.remark_arg = &heard;
    run_all(ranks, port, 1);
    cr_assert_eq(ranks[0].rc, WK_ETIMEOUT);
    snprintf(expected, sizeof(expected), "MASTER_PORT %d is taken", port);
    cr_assert_eq(heard.count, 1);
    cr_assert(strstr(heard.text, expected), "%s", heard.text);
    cr_assert(strstr(ranks[0].err.text, "is taken: rank 0 listened on port"), "%s",
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
    int fd, port = occupied_port(&fd);
    struct rank ranks[2];
    for (int r = 0; r < 2; r++)
        ranks[r] = (struct rank){.options = {.rank = r,
                                             .world = 2,
                                             .timeout_ms = 20000,
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
Test(bootstrap, trainings_with_names_of_their_own_share_a_port, .timeout = 60)
{
    enum { RANKS = 7 };
    static const struct {
        const char *run;
        int rank, world;
    } all[RANKS] = {{"b", 1, 2}, {"a", 1, 2}, {"a", 2, 3}, {"a", 1, 3},
                    {"a", 0, 2}, {"b", 0, 2}, {"a", 0, 3}};
    struct rank ranks[RANKS];
    int fd, port = occupied_port(&fd);
    close(fd);
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank){.options = {.rank = all[i].rank,
                                             .world = all[i].world,
                                             .run = all[i].run,
                                             .timeout_ms = 30000}};
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
Test(bootstrap, two_trainings_that_nothing_tells_apart_are_both_refused, .timeout = 60)
{
    struct rank ranks[3];
    int fd, port = occupied_port(&fd);
    close(fd);
    for (int i = 0; i < 3; i++)
        ranks[i] = (struct rank){.options = {.rank = i / 2, .world = 3, .timeout_ms = 30000}};
    run_all(ranks, port, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(ranks[i].rc, WK_EINVAL, "%d: %s", i, ranks[i].err.text);
        cr_assert(strstr(ranks[i].err.text, "a MASTER_PORT of its own"), "%s", ranks[i].err.text);
    }
}

/* A process of another training, or one with the number of another. */
Test(bootstrap, a_rank_comes_once, .timeout = 60)
{
    struct rank ranks[3];
    int fd, port = occupied_port(&fd);
    close(fd);
    /* Rank 2 does not come, so that both ranks 1 are there together. */
    for (int i = 0; i < 3; i++)
        ranks[i] = (struct rank){.options = {.rank = i > 0, .world = 3, .timeout_ms = 30000}};
    run_all(ranks, port, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ranks[i].rc, WK_EINVAL, "%d: %s", i, ranks[i].err.text);
        cr_assert(strstr(ranks[i].err.text, "as rank 1"), "%s", ranks[i].err.text);
    }
}

Test(bootstrap, a_training_of_another_size_on_the_port_is_named, .timeout = 60)
{
    struct rank ranks[2];
    int fd, port = occupied_port(&fd);
    close(fd);
    for (int i = 0; i < 2; i++)
        ranks[i] = (struct rank){
            .options = {.rank = i, .world = 2 + i, .run = "Slurm 7.0", .timeout_ms = 1500}};
    ranks[0].options.timeout_ms = 3000; /* so it is there as long as the other looks */
    run_all(ranks, port, 2);
    cr_assert_eq(ranks[1].rc, WK_ETIMEOUT);
    cr_assert(strstr(ranks[1].err.text, "is held by another training of 2 ranks (Slurm 7.0)"), "%s",
              ranks[1].err.text);
}
