/* What one TLS handshake costs either side, without sockets: fleet_handshake FOLDER COUNT. Prints a
 * JSON line: microseconds of a processor for the server and for a client that proves a key, of
 * whole handshakes and of resumed ones; of a call on an open session, which is a record of a beat's
 * size each way; and the memory that an open session holds at the server. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/env/tls.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"

enum { COUNT_MAX = 100000, STEPS_MAX = 8, PATH_BYTES = 512, BEAT_BYTES = 150, CALLS_EACH = 10 };

struct side {
    struct tls_identity *identity;
    struct tls_session *session;
    double used_s;
};

struct pair {
    struct side server, client;
    const char *pin;
    struct buf ticket; /* to resume by; empty: the next handshake is whole */
};

static double used_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what, const struct error *err)
{
    fprintf(stderr, "fleet_handshake: %s: %s\n", what, err->text);
    exit(1);
}

/* One side's turn: what the other sent goes in. True once its handshake is done. */
static bool turn(struct side *side, struct side *from)
{
    struct error err = {0};
    struct buf *sent = tls_out(from->session);
    double since_s = used_s();
    int rc = sent->size ? tls_feed(side->session, sent->data, sent->size) : 0;
    buf_clear(sent);
    if (rc == 0)
        rc = tls_handshake(side->session, &err);
    side->used_s += used_s() - since_s;
    if (rc < 0)
        fail("handshake", &err);
    return rc > 0;
}

/* One handshake; its ticket replaces the pair's. The sessions stay open. */
static void shake(struct pair *pair)
{
    struct side *server = &pair->server, *client = &pair->client;
    struct buf *ticket = &pair->ticket;
    struct error err = {0};
    char byte;
    double since_s = used_s();
    if (tls_server_new(server->identity, &server->session, &err) != 0)
        fail("server", &err);
    server->used_s += used_s() - since_s;
    since_s = used_s();
    if (tls_client_new(client->identity, pair->pin, &client->session, &err) != 0)
        fail("client", &err);
    if (ticket->size)
        tls_client_resume(client->session, ticket->data, ticket->size);
    client->used_s += used_s() - since_s;
    bool resumes = ticket->size > 0, done = false;
    for (int i = 0; i < STEPS_MAX && !done; i++) {
        (void)turn(client, server);
        done = turn(server, client);
    }
    if (!done || tls_resumed(server->session) != resumes)
        fail("handshake", &(struct error){.text = "it was not what was meant"});
    since_s = used_s();
    struct buf *tickets = tls_out(server->session);
    if (tls_feed(client->session, tickets->data, tickets->size) != 0 ||
        tls_read(client->session, &byte, 1) != 0)
        fail("handshake", &(struct error){.text = "no ticket came"});
    buf_fini(tickets);
    buf_clear(ticket);
    if (tls_client_ticket(client->session, ticket) != 0)
        fail("handshake", &(struct error){.text = "no ticket came"});
    client->used_s += used_s() - since_s;
}

static void measure(struct pair *pair, int count, bool resumes, const char *name)
{
    pair->server.used_s = pair->client.used_s = 0;
    for (int i = 0; i < count; i++) {
        if (!resumes)
            buf_clear(&pair->ticket);
        shake(pair);
        tls_session_free(pair->server.session);
        tls_session_free(pair->client.session);
    }
    printf("\"%s_server_us\": %.1f, \"%s_client_us\": %.1f, ", name,
           1e6 * pair->server.used_s / count, name, 1e6 * pair->client.used_s / count);
}

static void pass(struct side *from, struct side *to)
{
    char bytes[BEAT_BYTES] = "";
    double since_s = used_s();
    struct buf *sent = tls_out(from->session);
    int rc = tls_write(from->session, bytes, sizeof(bytes));
    from->used_s += used_s() - since_s;
    since_s = used_s();
    if (rc != 0 || tls_feed(to->session, sent->data, sent->size) != 0 ||
        tls_read(to->session, bytes, sizeof(bytes)) != (int64_t)sizeof(bytes))
        fail("record", &(struct error){.text = "it did not come"});
    to->used_s += used_s() - since_s;
    buf_clear(sent);
}

static void measure_calls(struct pair *pair, int count)
{
    buf_clear(&pair->ticket);
    shake(pair);
    pair->server.used_s = pair->client.used_s = 0;
    for (int i = 0; i < count; i++) {
        pass(&pair->client, &pair->server);
        pass(&pair->server, &pair->client);
    }
    tls_session_free(pair->server.session);
    tls_session_free(pair->client.session);
    printf("\"call_server_us\": %.2f, \"call_client_us\": %.2f, ",
           1e6 * pair->server.used_s / count, 1e6 * pair->client.used_s / count);
}

/* Bytes of an open session at the server, of `count` that are open at once. */
static double session_bytes(struct pair *pair, int count)
{
    struct tls_session **open = calloc((size_t)count, sizeof(struct tls_session *));
    size_t before = mallinfo2().uordblks;
    for (int i = 0; open && i < count; i++) {
        buf_clear(&pair->ticket);
        shake(pair);
        open[i] = pair->server.session;
        tls_session_free(pair->client.session);
    }
    size_t after = mallinfo2().uordblks;
    for (int i = 0; open && i < count; i++)
        tls_session_free(open[i]);
    free(open);
    return (double)(after - before) / count;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct pair pair = {0};
    struct tls_facts facts;
    char cluster_key[PATH_BYTES], server_key[PATH_BYTES], node_key[PATH_BYTES];
    int count = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: fleet_handshake FOLDER COUNT\n");
        return 2;
    }
    snprintf(cluster_key, sizeof(cluster_key), "%s/cluster.pem", argv[1]);
    snprintf(server_key, sizeof(server_key), "%s/server.pem", argv[1]);
    snprintf(node_key, sizeof(node_key), "%s/node.pem", argv[1]);
    if (tls_make_cluster_key(cluster_key, NULL, &err) != 0 ||
        tls_make_server_key(server_key, cluster_key, NULL, &err) != 0 ||
        tls_make_node_key(node_key, "bench", &err) != 0 ||
        tls_read_facts(cluster_key, &facts, &err) != 0 ||
        tls_identity_new(server_key, &pair.server.identity, &err) != 0 ||
        tls_identity_new(node_key, &pair.client.identity, &err) != 0)
        fail("keys", &err);
    pair.pin = facts.pin;
    buf_init(&pair.ticket, TLS_RESUME_MAX_BYTES);
    printf("{");
    measure(&pair, count, false, "whole");
    measure(&pair, count, true, "resumed");
    measure_calls(&pair, CALLS_EACH * count);
    printf("\"session_bytes\": %.0f}\n", session_bytes(&pair, count));
    tls_identity_free(pair.server.identity);
    tls_identity_free(pair.client.identity);
    buf_fini(&pair.ticket);
    return 0;
}
