/* Two hosts as network namespaces joined by a veth pair: the suite's loopback addresses never lose
 * a packet or a cable. A rank each and several connections; they reduce and get the bits of a plain
 * sum, the cable is cut, and both must notice by themselves.
 *
 * Needs root and `ip`; says SKIPPED where namespaces are not permitted.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/comm/ranks.h"
#include "tests/conformance/comm/values.h"

enum { COUNT = 1 << 18, NOTICED_MS = 20000, SKIPPED = 77 };

struct shared {
    char endpoints[2][COMM_ENDPOINT_BYTES];
    _Atomic int here, listening, cut;
    int code[2];
    double at_ms[2];
    char text[2][512];
    _Atomic int reduced;
};

static const char *const addresses[] = {"10.231.7.1", "10.231.7.2"};

/* Returns the exit status. */
static int run(const char *const argv[])
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status;
}

static int configure(int rank)
{
    char device[] = "wkveth0", address[32];
    device[6] = (char)('0' + rank);
    snprintf(address, sizeof(address), "%s/24", addresses[rank]);
    const char *const add[] = {"ip", "addr", "add", address, "dev", device, NULL};
    const char *const up[] = {"ip", "link", "set", device, "up", NULL};
    const char *const loopback[] = {"ip", "link", "set", "lo", "up", NULL};
    return run(add) | run(up) | run(loopback);
}

/* Rank 0's side makes the pair and pushes the other end into rank 1's namespace. */
static int lay_cable(pid_t other)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)other);
    const char *const add[] = {"ip",   "link", "add",  "wkveth0", "type",
                               "veth", "peer", "name", "wkveth1", NULL};
    const char *const give[] = {"ip", "link", "set", "wkveth1", "netns", pid, NULL};
    return run(add) | run(give);
}

static void wait_for(_Atomic int *word, int value)
{
    for (int i = 0; i < 20000 && *word < value; i++)
        usleep(1000);
}

/* In rank order, as shared memory gives it: the same bits. */
static bool is_plain_sum(const float *data, uint64_t seed)
{
    static float of[2][COUNT];
    bool same = true;
    for (int r = 0; r < 2; r++)
        values_fill(of[r], COUNT, WK_F32, seed, r);
    for (int i = 0; i < COUNT; i++) {
        float sum = of[0][i] + of[1][i];
        same &= memcmp(&sum, &data[i], sizeof(sum)) == 0;
    }
    return same;
}

static int be_rank(struct shared *s, int rank)
{
    const int hosts[] = {0, 1};
    const char *endpoints[] = {s->endpoints[0], s->endpoints[1]};
    struct comm_listener *listener;
    struct error err = {0};
    struct wk_comm *comm;
    float *data = calloc(COUNT, sizeof(*data));
    /* Its address may take a moment to be usable. */
    int rc = -1;
    for (int i = 0; i < 100 && rc != 0; i++, usleep(10000))
        rc = comm_listen(addresses[rank], &listener, &err);
    if (rc != 0)
        return SKIPPED;
    snprintf(s->endpoints[rank], COMM_ENDPOINT_BYTES, "%s", comm_listener_endpoint(listener));
    s->listening++;
    wait_for(&s->listening, 2);
    struct comm_options options = {.rank = rank,
                                   .world = 2,
                                   .endpoints = endpoints,
                                   .hosts = hosts,
                                   .generation = 1,
                                   .connect_timeout_ms = 10000,
                                   .tcp_connections = 3};
    rc = comm_connect(listener, &options, &comm, &err);
    if (rc != 0) {
        fprintf(stderr, "rank %d: %s\n", rank, err.text);
        return 1;
    }
    for (uint64_t seed = 0; rc == 0; seed++) {
        values_fill(data, COUNT, WK_F32, seed, rank);
        rc = wk_all_reduce(comm, data, COUNT, WK_F32, WK_SUM, NULL);
        if (rc == 0 && !is_plain_sum(data, seed))
            return 1;
        s->reduced += rc == 0;
    }
    s->at_ms[rank] = ranks_now_ms();
    s->code[rank] = rc;
    snprintf(s->text[rank], sizeof(s->text[rank]), "%s", wk_comm_error(comm));
    wk_comm_close(comm);
    free(data);
    return 0;
}

/* The namespace ends with its last process: nothing to clean up. */
static pid_t start(struct shared *s, int rank, pid_t other)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    if (unshare(CLONE_NEWNET) != 0)
        _exit(SKIPPED);
    s->here++;
    wait_for(&s->here, 2);
    if (rank == 0) {
        if (lay_cable(other) != 0)
            _exit(SKIPPED);
        s->here++;
    }
    wait_for(&s->here, 3);
    if (configure(rank) != 0)
        _exit(SKIPPED);
    if (rank == 0 && fork() == 0) {
        const char *const down[] = {"ip", "link", "set", "wkveth0", "down", NULL};
        wait_for(&s->cut, 1);
        _exit(run(down) != 0);
    }
    _exit(be_rank(s, rank));
}

int main(void)
{
    struct shared *s = ranks_shared(sizeof(*s));
    int status[2] = {0, 0}, bad = 0;
    pid_t pids[2];
    pids[1] = start(s, 1, 0);
    pids[0] = start(s, 0, pids[1]);
    for (int i = 0; i < 5000 && s->reduced < 20; i++)
        usleep(1000);
    double cut_ms = ranks_now_ms();
    s->cut = 1;
    for (int r = 0; r < 2; r++)
        waitpid(pids[r], &status[r], 0);
    for (int r = 0; r < 2; r++) {
        if (WIFEXITED(status[r]) && WEXITSTATUS(status[r]) == SKIPPED) {
            printf("SKIPPED: network namespaces, veth or `ip` are not to be had here\n");
            return 0;
        }
        double took_ms = s->at_ms[r] - cut_ms;
        bool ok = status[r] == 0 && s->code[r] == WK_EPEER && took_ms < NOTICED_MS;
        printf("rank %d noticed the cut cable after %.1f s: %s%s\n", r, took_ms / 1e3, s->text[r],
               ok ? "" : " FAILED");
        bad += !ok;
    }
    printf("%d reductions between the namespaces\n", s->reduced / 2);
    return bad != 0 || s->reduced < 20;
}
