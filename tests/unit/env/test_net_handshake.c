#include "common/env/clock_os.h"
#include "common/env/net_handshake.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/loop/loop.h"

enum { PATH_BYTES = 64 };

static bool no_threads; /* as with a limit of processes that is reached */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int pthread_create(pthread_t *ret, const pthread_attr_t *how, void *(*work)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (no_threads)
        return EAGAIN;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(ret, how, work, arg);
}

static int ready;

static void on_ready(void *arg, int fd, struct tls_session *session,
                     const struct sockaddr_storage *address)
{
    (void)arg, (void)address;
    tls_session_free(session);
    close(fd);
    ready++;
}

/* One end goes through its handshake at the other; true once it has. */
static bool shakes_hands(struct loop *loop, struct handshakes *all, const char *pin)
{
    struct sockaddr_storage address = {0};
    struct tls_identity *nobody;
    struct tls_session *client;
    char bytes[4096];
    int pair[2], before = ready;
    bool open = true;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(tls_identity_new(NULL, &nobody, NULL), 0);
    cr_assert_eq(tls_client_new(nobody, pin, &client, NULL), 0);
    handshakes_add(all, pair[1], &address);
    while (open && ready == before) {
        (void)tls_handshake(client, NULL);
        struct buf *out = tls_out(client);
        (void)!send(pair[0], out->data, out->size, MSG_NOSIGNAL);
        buf_clear(out);
        loop_turn(loop);
        usleep(1000);
        ssize_t size = recv(pair[0], bytes, sizeof(bytes), 0);
        open = size > 0 || (size < 0 && errno == EAGAIN);
        if (size > 0)
            cr_assert_eq(tls_feed(client, bytes, (size_t)size), 0);
    }
    tls_session_free(client);
    tls_identity_free(nobody);
    close(pair[0]);
    return ready > before;
}

/* A server of its own key. */
struct side {
    struct loop *loop;
    struct tls_identity *identity;
    struct tls_facts facts;
    struct handshakes *all;
};

static void side_init(struct side *side)
{
    char folder[] = "/tmp/muster-handshake-XXXXXX", cluster[PATH_BYTES], server[PATH_BYTES];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(cluster, sizeof(cluster), "%s/cluster.pem", folder);
    snprintf(server, sizeof(server), "%s/server.pem", folder);
    cr_assert_eq(tls_make_cluster_key(cluster, NULL, NULL), 0);
    cr_assert_eq(tls_make_server_key(server, cluster, NULL, NULL), 0);
    cr_assert_eq(tls_read_facts(server, &side->facts, NULL), 0);
    cr_assert_eq(tls_identity_new(server, &side->identity, NULL), 0);
    unlink(cluster);
    unlink(server);
    rmdir(folder);
    cr_assert_eq(loop_new(clock_os(), &side->loop, NULL), 0);
    cr_assert_eq(handshakes_new(side->loop, side->identity, on_ready, NULL, &side->all, NULL), 0);
}

static void side_fini(struct side *side)
{
    handshakes_free(side->all);
    loop_free(side->loop);
    tls_identity_free(side->identity);
}

Test(net_handshake, threads_that_cannot_start_now_start_with_a_later_connection)
{
    struct side side;
    side_init(&side);
    no_threads = true;
    cr_expect_not(shakes_hands(side.loop, side.all, side.facts.signer));
    no_threads = false;
    cr_expect(shakes_hands(side.loop, side.all, side.facts.signer));
    side_fini(&side);
}

/* Its answer would cost a signature. */
Test(net_handshake, one_that_has_given_up_is_not_answered)
{
    struct side side;
    struct sockaddr_storage address = {0};
    struct tls_identity *nobody;
    struct tls_session *client;
    char byte;
    int pair[2];
    side_init(&side);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(tls_identity_new(NULL, &nobody, NULL), 0);
    cr_assert_eq(tls_client_new(nobody, side.facts.signer, &client, NULL), 0);
    (void)tls_handshake(client, NULL);
    struct buf *out = tls_out(client);
    cr_assert_eq(send(pair[0], out->data, out->size, MSG_NOSIGNAL), (ssize_t)out->size);
    buf_clear(out);
    cr_assert_eq(shutdown(pair[0], SHUT_WR), 0);
    handshakes_add(side.all, pair[1], &address);
    cr_expect_leq(recv(pair[0], &byte, 1, 0), 0);
    close(pair[0]);
    tls_session_free(client);
    tls_identity_free(nobody);
    side_fini(&side);
}
