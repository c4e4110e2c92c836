#include "tests/conformance/comm/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_SECONDS = 120 };

struct meeting_place {
    struct comm_listener *listeners[RANKS_MAX];
    char texts[RANKS_MAX][COMM_ENDPOINT_BYTES];
    const char *endpoints[RANKS_MAX];
    int hosts[RANKS_MAX];
};

static void prepare(const struct ranks *ranks, struct meeting_place *place)
{
    for (int r = 0; r < ranks->world; r++) {
        struct error err = {0};
        char address[32];
        place->hosts[r] = ranks->hosts == HOSTS_SHARED  ? 7
                          : ranks->hosts == HOSTS_APART ? r
                                                        : r / 2;
        /* Every host has an address of its own. */
        snprintf(address, sizeof(address), "127.0.0.%d", 2 + place->hosts[r]);
        if (comm_listen(address, &place->listeners[r], &err) != 0) {
            fprintf(stderr, "comm_listen: %s\n", err.text);
            abort();
        }
        snprintf(place->texts[r], sizeof(place->texts[r]), "%s",
                 comm_listener_endpoint(place->listeners[r]));
        place->endpoints[r] = place->texts[r];
    }
}

static void clear(const struct ranks *ranks, struct meeting_place *place, int except)
{
    for (int r = 0; r < ranks->world; r++)
        if (r != except)
            comm_listener_close(place->listeners[r]);
}

static int be_rank(const struct ranks *ranks, struct meeting_place *place, int rank, rank_fn fn)
{
    struct comm_options options = {
        .rank = rank,
        .world = ranks->world,
        .endpoints = place->endpoints,
        .hosts = place->hosts,
        .generation = ranks->generation,
        .connect_timeout_ms = ranks->connect_timeout_ms ? ranks->connect_timeout_ms : 10000,
        .timeout_ms = ranks->timeout_ms,
        .tcp_connections = ranks->tcp_connections < 0 ? 1 + rank % 4 : ranks->tcp_connections,
        .ways = rank == 1 && ranks->other_ways ? ranks->other_ways : ranks->ways,
    };
    memset(options.secret, rank == ranks->wrong_secret_of ? 1 : 2, sizeof(options.secret));
    struct wk_comm *comm = NULL;
    struct error err = {0};
    int rc = comm_connect(place->listeners[rank], &options, &comm, &err);
    if (rc != 0 && ranks->wrong_secret_of < 0)
        fprintf(stderr, "rank %d: %s\n", rank, err.text);
    int result = fn(comm, rank, rc, ranks);
    wk_comm_close(comm);
    return result;
}

void ranks_start(const struct ranks *ranks, rank_fn fn, struct ranks_started *ret)
{
    struct meeting_place place;
    prepare(ranks, &place);
    ret->world = ranks->world;
    fflush(NULL);
    for (int r = 0; r < ranks->world; r++) {
        ret->pids[r] = fork();
        if (ret->pids[r] != 0)
            continue;
        /* No rank outlives a test that crashed or hangs. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(RANKS_SECONDS);
        clear(ranks, &place, r);
        int result = be_rank(ranks, &place, r, fn);
        comm_listener_close(place.listeners[r]);
        fflush(NULL);
        _exit(result == 0 ? 0 : 1);
    }
    clear(ranks, &place, -1);
}

int ranks_join(const struct ranks_started *started)
{
    int bad = 0;
    for (int r = 0; r < started->world; r++) {
        int status = -1;
        waitpid(started->pids[r], &status, 0);
        bad += status != 0;
    }
    return bad;
}

struct rank_thread {
    const struct ranks *ranks;
    struct meeting_place *place;
    int rank;
    rank_fn fn;
    int result;
};

static void *thread_main(void *arg)
{
    struct rank_thread *t = arg;
    t->result = be_rank(t->ranks, t->place, t->rank, t->fn);
    return NULL;
}

static int run_threads(const struct ranks *ranks, rank_fn fn)
{
    struct meeting_place place;
    struct rank_thread args[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int bad = 0;
    prepare(ranks, &place);
    for (int r = 0; r < ranks->world; r++) {
        args[r] = (struct rank_thread){ranks, &place, r, fn, 0};
        pthread_create(&threads[r], NULL, thread_main, &args[r]);
    }
    for (int r = 0; r < ranks->world; r++) {
        pthread_join(threads[r], NULL);
        bad += args[r].result != 0;
    }
    clear(ranks, &place, -1);
    return bad;
}

int ranks_run(const struct ranks *ranks, rank_fn fn)
{
    if (ranks->kind == RANKS_THREADS)
        return run_threads(ranks, fn);
    struct ranks_started started;
    ranks_start(ranks, fn, &started);
    return ranks_join(&started);
}

void *ranks_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

const char *ranks_hosts_name(enum ranks_hosts hosts)
{
    static const char *const names[] = {"shm", "tcp", "mixed"};
    return names[hosts];
}

double ranks_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
