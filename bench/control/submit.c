/* Submits jobs as fast as they are acknowledged: submit URL TOKEN CLIENTS JOBS NODES. Each client
 * is a connection with one call open at a time. Prints the seconds it took. NODES is what each job
 * asks for: more than there are, and none of them starts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/base/token.h"
#include "common/env/clock_os.h"
#include "common/env/net_url.h"
#include "common/rpc/client.h"
#include "proto/client.pb-c.h"

enum { CLIENTS_MAX = 256, CALL_MS = 60000 };

struct bench {
    struct env env;
    struct loop *loop;
    long left, unanswered;
    uint32_t nodes;
    int failed;
};

struct submitter {
    struct bench *bench;
    struct rpc_client *client;
};

static void next(struct submitter *submitter);

static void answered(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct submitter *submitter = arg;
    struct bench *bench = submitter->bench;
    (void)answer;
    if (err->code && bench->failed++ == 0)
        fprintf(stderr, "submit: %s\n", err->text);
    if (--bench->unanswered == 0)
        loop_stop(bench->loop);
    else
        next(submitter);
}

static void next(struct submitter *submitter)
{
    struct bench *bench = submitter->bench;
    char program[] = "/bin/true", name[] = "bench", elastic[] = "off";
    char *command[] = {program};
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__JobSpec__Range nodes = MUSTER__JOB_SPEC__RANGE__INIT;
    Muster__SubmitJobRequest request = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = CALL_MS};
    if (bench->left == 0)
        return;
    bench->left--;
    nodes.min = nodes.max = bench->nodes;
    spec.name = name;
    spec.elastic = elastic;
    spec.command = command;
    spec.n_command = 1;
    spec.nodes = &nodes;
    request.spec = &spec;
    struct error err = {0};
    if (rpc_client_call(submitter->client, &muster__coordinator__descriptor, "SubmitJob",
                        &request.base, &options, answered, submitter, &err) < 0)
        answered(submitter, &err, NULL);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static struct submitter submitters[CLIENTS_MAX];
    struct bench bench = {0};
    struct error err = {0};
    int clients = argc == 6 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (clients < 1 || clients > CLIENTS_MAX) {
        fprintf(stderr, "usage: submit URL TOKEN CLIENTS JOBS NODES\n");
        return 2;
    }
    bench.left = bench.unanswered = strtol(argv[4], NULL, 10);
    bench.nodes = (uint32_t)strtoul(argv[5], NULL, 10);
    char address[NET_ADDRESS_MAX];
    int rc = net_address_secure(argv[1], NULL, token_pin(argv[2]), address, &err);
    if (rc == 0)
        rc = loop_new(clock_os(), &bench.loop, &err);
    if (rc == 0)
        rc = env_os_init(&bench.env, bench.loop, &err);
    for (int i = 0; rc == 0 && i < clients; i++) {
        submitters[i].bench = &bench;
        rc = rpc_client_new(&bench.env, bench.loop, address, argv[2], &submitters[i].client, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "submit: %s\n", err.text);
        return 3;
    }
    double start = now_s();
    for (int i = 0; i < clients; i++)
        next(&submitters[i]);
    loop_run(bench.loop);
    printf("%.6f\n", now_s() - start);
    fflush(NULL);
    _Exit(bench.failed ? 1 : 0); /* NNG 1.5.2 cannot be taken down while it is in use */
}
