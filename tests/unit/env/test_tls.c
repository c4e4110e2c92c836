#include "common/env/tls.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"

#include <criterion/criterion.h>
#include <gnutls/gnutls.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 128, TURNS_MAX = 20 };

static time_t ahead_s;

/* The clock of this whole program. */
time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec + ahead_s;
    return now.tv_sec + ahead_s;
}

static struct {
    char folder[64], cluster[PATH_BYTES], server[PATH_BYTES], node[PATH_BYTES];
    char pin[TLS_PIN_MAX], node_pin[TLS_PIN_MAX];
    struct tls_identity *serving, *dialing;
    struct tls_session *a, *b; /* server, client */
    struct error err;
} t;

static void path_of(char *ret, const char *name)
{
    snprintf(ret, PATH_BYTES, "%s/%s", t.folder, name);
}

static void setup(void)
{
    struct tls_facts facts;
    snprintf(t.folder, sizeof(t.folder), "/tmp/muster-tls-XXXXXX");
    cr_assert_not_null(mkdtemp(t.folder));
    path_of(t.cluster, "cluster.pem");
    path_of(t.server, "server.pem");
    path_of(t.node, "node.pem");
    cr_assert_eq(tls_make_cluster_key(t.cluster, NULL, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_make_server_key(t.server, t.cluster, NULL, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_make_node_key(t.node, "n1", &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_read_facts(t.server, &facts, &t.err), 0, "%s", t.err.text);
    snprintf(t.pin, sizeof(t.pin), "%s", facts.signer);
    cr_assert_eq(tls_read_facts(t.node, &facts, &t.err), 0, "%s", t.err.text);
    snprintf(t.node_pin, sizeof(t.node_pin), "%s", facts.pin);
    cr_assert_eq(tls_identity_new(t.server, &t.serving, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_identity_new(t.node, &t.dialing, &t.err), 0, "%s", t.err.text);
}

static void hang_up(void)
{
    tls_session_free(t.a);
    tls_session_free(t.b);
    t.a = t.b = NULL;
}

static void teardown(void)
{
    hang_up();
    tls_identity_free(t.serving);
    tls_identity_free(t.dialing);
    unlink(t.cluster);
    unlink(t.server);
    unlink(t.node);
    rmdir(t.folder);
}

TestSuite(tls, .init = setup, .fini = teardown);

static void carry(struct tls_session *from, struct tls_session *to)
{
    struct buf *out = tls_out(from);
    if (out->size > 0)
        cr_assert_eq(tls_feed(to, out->data, out->size), 0);
    buf_clear(out);
}

static void open_both(struct tls_identity *dialing, const char *pins)
{
    cr_assert_eq(tls_server_new(t.serving, &t.a, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_client_new(dialing, pins, &t.b, &t.err), 0, "%s", t.err.text);
}

/* What the client says in the end. */
static int shake_hands(void)
{
    int server = 0, client = 0;
    for (int i = 0; i < TURNS_MAX && client == 0; i++) {
        client = tls_handshake(t.b, &t.err);
        carry(t.b, t.a);
        server = server == 1 ? 1 : tls_handshake(t.a, NULL);
        carry(t.a, t.b);
    }
    if (client == 1 && server != 1)
        server = tls_handshake(t.a, NULL);
    carry(t.a, t.b);
    cr_assert(client != 1 || server == 1);
    return client;
}

static void expect_echo(void)
{
    static char sent[100000], got[sizeof(sent)];
    size_t count = 0;
    int64_t size;
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (char)(i * 7 >> 2);
    cr_assert_eq(tls_write(t.b, sent, sizeof(sent)), 0);
    carry(t.b, t.a);
    while ((size = tls_read(t.a, got + count, sizeof(got) - count)) > 0)
        count += (size_t)size;
    cr_assert_eq(count, sizeof(sent));
    cr_assert_arr_eq(got, sent, sizeof(sent));
}

Test(tls, both_sides_know_each_other_s_keys)
{
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    cr_assert_str_eq(tls_peer_pin(t.a), t.node_pin);
    expect_echo();
}

/* Tens of thousands of connections say much once, and little after it. */
Test(tls, a_session_keeps_no_memory_of_what_went_through_it)
{
    enum { MUCH_BYTES = 60000, KEPT_BYTES_MAX = 8192 };
    static char bytes[MUCH_BYTES];
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    buf_fini(tls_out(t.b));
    size_t before = mallinfo2().uordblks;
    cr_assert_eq(tls_write(t.b, bytes, sizeof(bytes)), 0);
    carry(t.b, t.a);
    buf_fini(tls_out(t.b));
    while (tls_read(t.a, bytes, sizeof(bytes)) > 0)
        ;
    size_t after = mallinfo2().uordblks;
    cr_assert_leq(after, before + KEPT_BYTES_MAX, "%zu bytes more", after - before);
}

Test(tls, a_client_without_a_key_proves_nothing)
{
    struct tls_identity *nobody;
    cr_assert_eq(tls_identity_new(NULL, &nobody, &t.err), 0);
    open_both(nobody, t.pin);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    cr_assert_str_eq(tls_peer_pin(t.a), "");
    expect_echo();
    tls_identity_free(nobody);
}

Test(tls, another_server_is_refused)
{
    char wrong[TLS_PIN_MAX];
    snprintf(wrong, sizeof(wrong), "%s", t.node_pin);
    open_both(t.dialing, wrong);
    cr_assert_eq(shake_hands(), E_UNAUTHENTICATED);
    cr_assert_not_null(strstr(t.err.text, t.pin), "%s", t.err.text);
}

/* An impostor shows the cluster's certificate below one of its own: it does not sign that. */
Test(tls, a_known_certificate_that_did_not_sign_is_of_no_use)
{
    char other_cluster[PATH_BYTES], other[PATH_BYTES], command[8 * PATH_BYTES];
    path_of(other_cluster, "other-cluster.pem");
    path_of(other, "other.pem");
    cr_assert_eq(tls_make_cluster_key(other_cluster, NULL, &t.err), 0);
    cr_assert_eq(tls_make_server_key(other, other_cluster, NULL, &t.err), 0);
    snprintf(command, sizeof(command),
             "awk '/BEGIN CERT/{n++} n==2{exit} {print}' %s >%s.mixed && "
             "awk '/BEGIN CERT/{n++} n>=1{print}' %s >>%s.mixed && mv %s.mixed %s",
             other, other, t.cluster, other, other, other);
    cr_assert_eq(system(command), 0);
    tls_identity_free(t.serving);
    int rc = tls_identity_new(other, &t.serving, &t.err);
    unlink(other);
    unlink(other_cluster);
    cr_assert_eq(rc, 0, "%s", t.err.text);
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), E_UNAUTHENTICATED, "%s", t.err.text);
}

Test(tls, a_new_cluster_key_is_accepted_by_those_who_know_the_old_one)
{
    struct tls_facts facts;
    cr_assert_eq(tls_make_cluster_key(t.cluster, t.cluster, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_make_server_key(t.server, t.cluster, NULL, &t.err), 0, "%s", t.err.text);
    cr_assert_eq(tls_read_facts(t.server, &facts, &t.err), 0);
    cr_assert_str_neq(facts.signer, t.pin);
    tls_identity_free(t.serving);
    cr_assert_eq(tls_identity_new(t.server, &t.serving, &t.err), 0, "%s", t.err.text);
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    hang_up();
    open_both(t.dialing, facts.signer);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
}

/* A server shows three cluster keys: the one that a fourth drops is told of before. */
Test(tls, the_cluster_key_that_would_be_dropped_is_known)
{
    struct tls_oldest oldest;
    for (int keys = 1; keys < 3; keys++) {
        cr_assert_eq(tls_read_oldest(t.cluster, &oldest, &t.err), E_NOT_FOUND, "%d keys", keys);
        cr_assert_eq(tls_make_cluster_key(t.cluster, t.cluster, &t.err), 0, "%s", t.err.text);
    }
    cr_assert_eq(tls_read_oldest(t.cluster, &oldest, &t.err), 0, "%s", t.err.text);
    cr_assert_str_eq(oldest.pin, t.pin);
    cr_assert_lt(llabs(oldest.until_wall_ms - (int64_t)time(NULL) * 1000), 60000);
    for (int keys = 3; keys <= 4; keys++) {
        cr_assert_eq(tls_make_server_key(t.server, t.cluster, NULL, &t.err), 0);
        tls_identity_free(t.serving);
        cr_assert_eq(tls_identity_new(t.server, &t.serving, &t.err), 0, "%s", t.err.text);
        open_both(t.dialing, t.pin);
        cr_assert_eq(shake_hands(), keys == 3 ? 1 : E_UNAUTHENTICATED, "%d keys", keys);
        hang_up();
        cr_assert_eq(tls_make_cluster_key(t.cluster, t.cluster, &t.err), 0, "%s", t.err.text);
    }
}

Test(tls, a_replaced_file_is_taken_up)
{
    struct tls_facts before, after;
    cr_assert_eq(tls_read_facts(t.server, &before, &t.err), 0);
    cr_assert_eq(tls_make_server_key(t.server, t.cluster, NULL, &t.err), 0);
    cr_assert_eq(tls_read_facts(t.server, &after, &t.err), 0);
    cr_assert_str_neq(before.pin, after.pin);
    char seen[TLS_PIN_MAX] = "";
    while (strcmp(seen, after.pin) != 0) { /* it looks once a second */
        usleep(20000);
        open_both(t.dialing, t.pin);
        cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
        snprintf(seen, sizeof(seen), "%s", tls_peer_pin(t.b));
        hang_up();
    }
}

/* Also by a server that was started again on the same key. */
Test(tls, a_session_is_resumed_and_keeps_who_it_was)
{
    struct buf ticket;
    char byte;
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1);
    cr_assert_eq(tls_read(t.b, &byte, 1), 0);
    buf_init(&ticket, TLS_RESUME_MAX_BYTES);
    cr_assert_eq(tls_client_ticket(t.b, &ticket), 0);
    hang_up();
    tls_identity_free(t.serving);
    cr_assert_eq(tls_identity_new(t.server, &t.serving, &t.err), 0);
    open_both(t.dialing, t.pin);
    tls_client_resume(t.b, ticket.data, ticket.size);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    cr_assert(tls_resumed(t.a) && tls_resumed(t.b));
    cr_assert_str_eq(tls_peer_pin(t.a), t.node_pin);
    expect_echo();
    hang_up();
    /* A ticket is no way around the pins. */
    open_both(t.dialing, t.node_pin);
    tls_client_resume(t.b, ticket.data, ticket.size);
    cr_assert_eq(shake_hands(), E_UNAUTHENTICATED);
    buf_fini(&ticket);
}

/* A ticket of the last minute does not keep a certificate good. */
Test(tls, an_expired_certificate_is_refused_also_where_a_session_is_resumed)
{
    struct buf ticket;
    char byte;
    gnutls_global_set_time_function(time);
    ahead_s = (time_t)TLS_SERVER_DAYS * 86400 - 60;
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1, "%s", t.err.text);
    cr_assert_eq(tls_read(t.b, &byte, 1), 0);
    buf_init(&ticket, TLS_RESUME_MAX_BYTES);
    cr_assert_eq(tls_client_ticket(t.b, &ticket), 0);
    hang_up();
    ahead_s += 120;
    open_both(t.dialing, t.pin);
    tls_client_resume(t.b, ticket.data, ticket.size);
    cr_assert_eq(shake_hands(), E_UNAUTHENTICATED);
    cr_assert(tls_resumed(t.b));
    cr_assert_not_null(strstr(t.err.text, "expired"), "%s", t.err.text);
    buf_fini(&ticket);
}

Test(tls, what_speaks_no_tls_is_told_so)
{
    static const char greeting[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
    open_both(t.dialing, t.pin);
    cr_assert_eq(tls_handshake(t.b, &t.err), 0);
    cr_assert_eq(tls_feed(t.b, greeting, sizeof(greeting)), 0);
    cr_assert_eq(tls_handshake(t.b, &t.err), E_UNAVAILABLE);
    cr_assert_not_null(strstr(t.err.text, "TLS"), "%s", t.err.text);
}

Test(tls, changed_bytes_end_a_connection)
{
    char got[64];
    open_both(t.dialing, t.pin);
    cr_assert_eq(shake_hands(), 1);
    cr_assert_eq(tls_write(t.b, "hello", 5), 0);
    tls_out(t.b)->data[tls_out(t.b)->size - 3] ^= 1;
    carry(t.b, t.a);
    cr_assert_lt(tls_read(t.a, got, sizeof(got)), 0);
}

Test(tls, keys_that_are_none_are_refused)
{
    struct tls_identity *identity;
    struct tls_facts facts;
    struct tls_session *session;
    FILE *file = fopen(t.node, "w");
    cr_assert_not_null(file);
    fputs("no key\n", file);
    fclose(file);
    cr_expect_eq(tls_identity_new(t.node, &identity, &t.err), E_DATA_LOSS);
    cr_expect_not_null(strstr(t.err.text, t.node), "%s", t.err.text);
    cr_expect_eq(tls_read_facts(t.node, &facts, &t.err), E_DATA_LOSS);
    cr_expect_eq(tls_read_facts("/no/such/file", &facts, &t.err), E_NOT_FOUND);
    cr_expect_eq(tls_client_new(t.dialing, "", &session, &t.err), E_INVALID_ARGUMENT);
    cr_expect_eq(tls_client_new(t.dialing, "short", &session, &t.err), E_INVALID_ARGUMENT);
}
