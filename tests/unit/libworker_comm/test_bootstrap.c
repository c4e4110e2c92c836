/* Ranks that know only rank 0's address find each other. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
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
                                       .world = WORLD,
                                       .endpoints = r->table.endpoint_list,
                                       .hosts = r->table.hosts,
                                       .generation = r->table.generation,
                                       .timeout_ms = 5000};
        int32_t sum = 1 << r->options.rank;
        memcpy(options.secret, r->table.secret, sizeof(options.secret));
        r->rc = comm_connect(listener, &options, &comm, &r->err);
        if (r->rc == 0)
            r->rc = wk_all_reduce(comm, &sum, 1, WK_I32, WK_SUM, NULL);
        if (r->rc == 0 && sum != (1 << WORLD) - 1)
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
