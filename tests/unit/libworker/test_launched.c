/* Contexts that a launcher has started meet at its MASTER_PORT: what it says of itself reaches the
 * meeting, and what the meeting finds there reaches the program. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libworker/step/context.h"
#include "tests/lib/held_port.h"
#include "tests/lib/known_cpu.h"
#include "tests/lib/loopback.h"

TestSuite(launched, .init = known_cpu);

enum { NUMBER_BYTES = 12 };

struct process {
    pthread_t thread;
    char rank[NUMBER_BYTES], port[NUMBER_BYTES];
    const char *run, *timeout; /* NULL: not set */
    struct wk_context *ctx;
    int rc;
};

static const char *variable(void *arg, const char *name)
{
    const struct process *process = arg;
    const char *const pairs[][2] = {{"RANK", process->rank},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", loopback_own()},
                                    {"MASTER_PORT", process->port},
                                    {"TORCHELASTIC_RUN_ID", process->run},
                                    {"MUSTER_RENDEZVOUS_TIMEOUT", process->timeout}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(pairs[i][0], name) == 0)
            return pairs[i][1];
    return NULL;
}

static void *open_context(void *arg)
{
    struct process *process = arg;
    struct environment environment = {variable, process};
    struct context_seams seams = {.environment = &environment, .quiet = true};
    process->rc = context_open(NULL, &seams, &process->ctx);
    return NULL;
}

static struct process process_of(int rank, int port, const char *run)
{
    struct process process = {.run = run};
    snprintf(process.rank, sizeof(process.rank), "%d", rank);
    snprintf(process.port, sizeof(process.port), "%d", port);
    return process;
}

/* Both have as many ranks, so only the run that torchrun names tells them apart. */
Test(launched, two_runs_of_torchrun_share_a_port)
{
    enum { PROCESSES = 4 };
    int fd, port = held_port(&fd);
    struct process all[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        all[i] = process_of(i / 2, port, i % 2 ? "b" : "a");
        pthread_create(&all[i].thread, NULL, open_context, &all[i]);
    }
    for (int i = 0; i < PROCESSES; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < PROCESSES; i++) {
        cr_expect_eq(all[i].rc, 0, "%d: %s", i, wk_last_error(all[i].ctx));
        cr_expect_str_empty(wk_last_notice(all[i].ctx), "torchrun holds its port itself");
        for (int k = 0; k < PROCESSES && all[i].rc == 0; k++)
            cr_expect_eq(all[i].ctx->group.generation == all[k].ctx->group.generation,
                         i % 2 == k % 2, "%d and %d", i, k);
    }
    for (int i = 0; i < PROCESSES; i++)
        wk_close(all[i].ctx);
    close(fd);
}

Test(launched, a_port_that_is_taken_is_a_notice)
{
    char expected[64];
    int fd, port = held_port(&fd);
    struct process alone = process_of(0, port, NULL);
    alone.timeout = "100ms";
    open_context(&alone);
    cr_expect_eq(alone.rc, WK_ETIMEOUT);
    snprintf(expected, sizeof(expected), "MASTER_PORT %d is in use", port);
    cr_expect(strstr(wk_last_notice(alone.ctx), expected), "%s", wk_last_notice(alone.ctx));
    wk_close(alone.ctx);
    close(fd);
}
