/* The suite on net_os: over loopback tcp, a unix socket, and TLS with keys made here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/env/clock_os.h"
#include "common/env/net_os.h"
#include "common/env/net_url.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"
#include "common/loop/loop.h"
#include "tests/conformance/net/net_suite.h"
#include "tests/lib/loopback.h"

enum { PROGRAMS_MAX = 64 };

enum transport { TCP, IPC, TLS };

static char pin[TLS_PIN_MAX]; /* of the keys of this run */

struct program {
    struct net net;   /* what the suite uses */
    struct net plain; /* net_os's own */
    struct loop *loop;
    const char *folder;
};

struct real_world {
    enum transport transport;
    const char *folder; /* of sockets and certificates */
    struct program programs[PROGRAMS_MAX];
    int program_count;
    int places;
    char url[128];
};

/* The suite knows nothing of TLS: whoever listens or dials in this world gets its keys so. */
static int tls_dial(void *self, const char *url, struct net_dialer **ret, struct error *err)
{
    struct program *p = self;
    char full[NET_ADDRESS_MAX];
    snprintf(full, sizeof(full), "%s?pin=%s&key=%s/node.pem", url, pin, p->folder);
    return p->plain.dial(p->plain.self, full, ret, err);
}

static int tls_listen(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                      net_gone_fn on_gone, void *arg, struct net_listener **ret, struct error *err)
{
    struct program *p = self;
    char full[NET_ADDRESS_MAX];
    snprintf(full, sizeof(full), "%s?key=%s/server.pem", url, p->folder);
    return p->plain.listen(p->plain.self, full, max_in_flight, on_request, on_gone, arg, ret, err);
}

static int real_program(void *self, struct net **ret_net, struct loop **ret_loop)
{
    struct real_world *w = self;
    if (w->program_count == PROGRAMS_MAX)
        return E_RESOURCE_EXHAUSTED;
    struct program *p = &w->programs[w->program_count];
    int rc = loop_new(clock_os(), &p->loop, NULL);
    if (rc == 0)
        rc = net_os_init(&p->plain, p->loop, NULL);
    if (rc != 0)
        return rc;
    p->folder = w->folder;
    p->net = p->plain;
    if (w->transport == TLS) {
        p->net.self = p;
        p->net.dial = tls_dial;
        p->net.listen = tls_listen;
    }
    w->program_count++;
    *ret_net = &p->net;
    *ret_loop = p->loop;
    return 0;
}

static const char *real_place(void *self)
{
    struct real_world *w = self;
    switch (w->transport) {
    case TCP:
        snprintf(w->url, sizeof(w->url), "tcp://%s:0", loopback_own());
        break;
    case IPC:
        snprintf(w->url, sizeof(w->url), "ipc://%s/%d.sock", w->folder, w->places++);
        break;
    case TLS:
        snprintf(w->url, sizeof(w->url), "tls+tcp://%s:0", loopback_own());
        break;
    }
    return w->url;
}

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void real_turn(void *self, int64_t ms)
{
    struct real_world *w = self;
    int64_t until = now_us() + ms * 1000;
    do {
        for (int i = 0; i < w->program_count; i++)
            loop_turn(w->programs[i].loop);
        usleep(100);
    } while (now_us() < until);
}

static int run(const char *name, enum transport transport, const char *folder)
{
    struct real_world *w = calloc(1, sizeof(*w));
    w->transport = transport;
    w->folder = folder;
    struct net_world world = {name, w, real_program, real_place, real_turn};
    int failed = net_suite_run(&world);
    for (int i = 0; i < w->program_count; i++) {
        net_os_fini(&w->programs[i].plain);
        loop_free(w->programs[i].loop);
    }
    free(w);
    return failed;
}

static void make_keys(const char *folder)
{
    char cluster[128], server[128], node[128];
    struct error err;
    struct tls_facts facts;
    snprintf(cluster, sizeof(cluster), "%s/cluster.pem", folder);
    snprintf(server, sizeof(server), "%s/server.pem", folder);
    snprintf(node, sizeof(node), "%s/node.pem", folder);
    if (tls_make_cluster_key(cluster, NULL, &err) != 0 ||
        tls_make_server_key(server, cluster, NULL, &err) != 0 ||
        tls_make_node_key(node, "node", &err) != 0 || tls_read_facts(server, &facts, &err) != 0) {
        printf("keys: %s\n", err.text);
        _exit(1);
    }
    snprintf(pin, sizeof(pin), "%s", facts.signer);
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"cluster.pem", "server.pem", "node.pem"};
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    for (int i = 0; i < PROGRAMS_MAX; i++) {
        snprintf(path, sizeof(path), "%s/%d.sock", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

int main(void)
{
    char folder[] = "/tmp/muster-net-XXXXXX";
    if (!mkdtemp(folder)) {
        perror("mkdtemp");
        return 1;
    }
    make_keys(folder);
    int failed = run("tcp", TCP, folder) + run("ipc", IPC, folder) + run("tls", TLS, folder);
    remove_folder(folder);
    if (failed)
        printf("%d failed\n", failed);
    fflush(stdout);
    _exit(failed != 0); /* NNG's sockets are not closed, its threads not joined */
}
