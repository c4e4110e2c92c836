/* Many nodes in one process: fleet URL TOKEN FOLDER agents|beats COUNT SECONDS [returns].
 *
 * agents: COUNT real agents (agents.c). beats: COUNT nodes that only speak (beats.c). Each has a
 * key of its own, made in FOLDER before the clock starts, and a connection of its own.
 *
 * When all are registered it prints "ready SECONDS", then measures for SECONDS and prints one JSON
 * line: reports a second and how long they take to be answered (of agents: of a probe's calls).
 * With `returns` the nodes stay until the program is killed; the coordinator may then be killed and
 * started again, and once every node lost its connection and was heard again, a second line tells
 * how many handshakes that took.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/fleet/fleet.h"
#include "common/base/token.h"
#include "common/env/clock_os.h"
#include "common/env/tls.h"
#include "common/env/tls_key.h"

enum {
    COUNT_MAX = 20000,
    JOINING_MAX = 512, /* more would be late: one thread speaks for all */
    SAMPLES_MAX = 1 << 20,
    LOOK_EVERY_MS = 20,
};

/* What each handshake of this process cost and whether it was resumed: the linker puts this in the
 * dialer's way (--wrap). One thread, as the loop. */
int __real_tls_handshake(struct tls_session *session, struct error *err);
int __wrap_tls_handshake(struct tls_session *session, struct error *err);

static struct {
    int whole, resumed, failed;
} handshakes;

int __wrap_tls_handshake(struct tls_session *session, struct error *err)
{
    int rc = __real_tls_handshake(session, err);
    handshakes.failed += rc < 0;
    if (rc > 0 && tls_resumed(session))
        handshakes.resumed++;
    else if (rc > 0)
        handshakes.whole++;
    return rc;
}

double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void fleet_sample(struct fleet *fleet, double since_s)
{
    if (fleet->ready_s > 0 && fleet->samples < SAMPLES_MAX)
        fleet->samples_ms[fleet->samples++] = (float)((now_s() - since_s) * 1000);
}

void fleet_fail(struct fleet *fleet, const char *what, const struct error *err)
{
    if (err->code && !fleet->returns && fleet->failed++ == 0)
        fprintf(stderr, "fleet: %s: %s\n", what, err->text);
}

static void key_path(const struct fleet *fleet, int at, char ret[NET_KEY_PATH_MAX])
{
    snprintf(ret, NET_KEY_PATH_MAX, "%s/%d.pem", fleet->folder, at);
}

int fleet_address(const struct fleet *fleet, int at, char ret[NET_ADDRESS_MAX], struct error *err)
{
    char key[NET_KEY_PATH_MAX] = "";
    if (at >= 0)
        key_path(fleet, at, key);
    return net_address_secure(fleet->url, key, token_pin(fleet->token), ret, err);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct fleet *fleet, double part)
{
    return fleet->samples ? fleet->samples_ms[(int)(part * (fleet->samples - 1))] : 0;
}

static void watch_return(void *arg)
{
    struct fleet *fleet = arg;
    if (fleet->beaters && fleet->returned == fleet->count) {
        printf("{\"returned\": %d, \"whole\": %d, \"resumed\": %d, \"broken\": %d}\n",
               fleet->returned, handshakes.whole, handshakes.resumed, handshakes.failed);
        fflush(stdout);
        return;
    }
    loop_timer_set(fleet->loop, &fleet->look, loop_now_ms(fleet->loop) + LOOK_EVERY_MS,
                   watch_return, fleet);
}

static void end(void *arg)
{
    struct fleet *fleet = arg;
    qsort(fleet->samples_ms, (size_t)fleet->samples, sizeof(*fleet->samples_ms), by_value);
    bool later = fleet->returns;
    memset(&handshakes, 0, sizeof(handshakes));
    printf("{\"nodes\": %d, \"failed\": %d, \"calls_per_s\": %.1f, \"p50_ms\": %.2f, "
           "\"p99_ms\": %.2f, \"max_ms\": %.2f}\n",
           fleet->registered, fleet->failed, fleet->samples / (now_s() - fleet->ready_s),
           quantile(fleet, 0.5), quantile(fleet, 0.99), quantile(fleet, 1));
    fflush(NULL);
    if (later) {
        watch_return(fleet);
        return;
    }
    if (fleet->agents)
        agents_end(fleet);
    _Exit(fleet->failed ? 1 : 0); /* NNG 1.5.2 cannot be taken down while it is in use */
}

static void look(void *arg)
{
    struct fleet *fleet = arg;
    if (fleet->agents)
        fleet->registered = agents_registered(fleet);
    if (fleet->registered < fleet->count) {
        loop_timer_set(fleet->loop, &fleet->look, loop_now_ms(fleet->loop) + LOOK_EVERY_MS, look,
                       fleet);
        return;
    }
    fleet->ready_s = now_s();
    printf("ready %.3f\n", fleet->ready_s - fleet->start_s);
    fflush(stdout);
    if (fleet->agents)
        agents_probe(fleet);
    loop_timer_set(fleet->loop, &fleet->end,
                   loop_now_ms(fleet->loop) + (int64_t)(fleet->seconds * 1000), end, fleet);
}

/* As many as join at once; the others follow them. */
static void start_some(void *arg)
{
    struct fleet *fleet = arg;
    struct error err = {0};
    while (fleet->started < fleet->count && fleet->started - fleet->registered < JOINING_MAX) {
        int at = fleet->started;
        if ((fleet->agents ? agents_start(fleet, at, &err) : beats_start(fleet, at, &err)) < 0) {
            fprintf(stderr, "fleet: %s\n", err.text);
            _Exit(3);
        }
        fleet->started++;
    }
    if (fleet->started < fleet->count)
        loop_timer_set(fleet->loop, &fleet->start, loop_now_ms(fleet->loop) + LOOK_EVERY_MS,
                       start_some, fleet);
}

static int make_keys(const struct fleet *fleet, struct error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < fleet->count; i++) {
        char path[NET_KEY_PATH_MAX];
        key_path(fleet, i, path);
        rc = tls_make_node_key(path, "bench", err);
    }
    return rc;
}

static int start(struct fleet *fleet, struct error *err)
{
    int rc = make_keys(fleet, err);
    if (rc == 0)
        rc = loop_new(clock_os(), &fleet->loop, err);
    if (rc == 0)
        rc = env_os_init(&fleet->env, fleet->loop, err);
    if (rc == 0)
        rc = fleet->agents ? agents_init(fleet, err) : beats_init(fleet, err);
    if (rc != 0)
        return rc;
    fleet->start_s = now_s();
    start_some(fleet);
    look(fleet);
    return 0;
}

/* A connection a node, and a hub's socket besides. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    static struct fleet fleet;
    struct error err = {0};
    if (argc == 7 || (argc == 8 && strcmp(argv[7], "returns") == 0)) {
        fleet.url = argv[1];
        fleet.token = argv[2];
        fleet.folder = argv[3];
        fleet.agents = strcmp(argv[4], "agents") == 0;
        fleet.count = (int)strtol(argv[5], NULL, 10);
        fleet.seconds = strtod(argv[6], NULL);
        fleet.returns = argc == 8;
    }
    if (fleet.count < 1 || fleet.count > COUNT_MAX || fleet.seconds <= 0) {
        fprintf(stderr, "usage: fleet URL TOKEN FOLDER agents|beats COUNT SECONDS [returns]\n");
        return 2;
    }
    raise_descriptors();
    fleet.samples_ms = calloc(SAMPLES_MAX, sizeof(*fleet.samples_ms));
    if (!fleet.samples_ms || start(&fleet, &err) < 0) {
        fprintf(stderr, "fleet: %s\n", err.text);
        return 3;
    }
    loop_run(fleet.loop);
    return 0;
}
