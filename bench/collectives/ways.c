/* Measures the table of libworker/comm/ways.c and prints its rows.
 *
 *     bench_collectives_ways [MOST_RANKS [FIRST_RANKS [PLACEMENT]]]
 *
 * MOST_RANKS is 16 by default and 64 at most, FIRST_RANKS 2; PLACEMENT 0 to 2, together, evenly,
 * apart, is all by default. 64 ranks on hosts of their own take minutes on two cores.
 *
 * For each placement and world: every way of an all-reduce at every size, taking turns; broadcasts
 * both ways; connections of a pair. Hosts are loopback addresses; to measure real ones, force a way
 * (comm_options.ways) and time the program itself. Microseconds, medians of the turns, as rank 0
 * sees them. The row printed behind is the one whose times are least above the best of each size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/collectives/timing.h"
#include "bench/collectives/values.h"
#include "libworker/comm/state.h"

enum {
    RANKS_MAX = 64,
    RANKS_USUAL = 16,
    TURNS = 5,
    SIZES = 10,
    FIRST_BYTES = 64,
    GROWTH = 4,
    CONNECTIONS = 3
};
enum { MOST_BYTES = 16 * 1024 * 1024, BROADCASTS = 2 };
#define TURN_US 4000.0
#define NEVER   1e18

struct place {
    const char *name;
    enum placement placement;
    int ranks_per_host; /* 0: all */
    enum way ways[3];
    int count;
};

static const struct place places[] = {
    {"PLACED_TOGETHER", PLACED_TOGETHER, 0, {WAY_DIRECT, WAY_SLICED}, 2},
    {"PLACED_EVENLY", PLACED_EVENLY, 2, {WAY_DIRECT, WAY_SLICED, WAY_TWO_LEVELS}, 3},
    {"PLACED_APART", PLACED_APART, 1, {WAY_DIRECT, WAY_SLICED, WAY_CHAIN}, 3},
};

struct times {
    double reduce[SIZES][3], broadcast[SIZES][BROADCASTS];
};

static size_t bytes_of(int size)
{
    size_t bytes = FIRST_BYTES;
    while (size-- > 0)
        bytes *= GROWTH;
    return bytes;
}

/* Number `which` of the ways; behind them the broadcasts, straight and in slices. */
static int once(struct wk_comm *comm, const struct place *place, int which, float *data,
                size_t count)
{
    if (which < place->count) {
        comm->ways.steps[0] = (struct way_step){place->ways[which], SIZE_MAX};
        comm->ways.count = 1;
        return wk_all_reduce(comm, data, count, WK_F32, WK_SUM, NULL);
    }
    comm->ways.broadcast_direct_bytes = which == place->count ? SIZE_MAX : 0;
    return wk_broadcast(comm, data, count, WK_F32, 0, NULL);
}

/* The same number of calls on every rank. */
static double time_calls(struct wk_comm *comm, const struct place *place, int which, float *data,
                         size_t count)
{
    double from_us = now_us();
    int rc = once(comm, place, which, data, count);
    double us = now_us() - from_us;
    int32_t calls = us * 500 < TURN_US ? 500 : (int32_t)(TURN_US / us) + 1;
    if (rc == 0)
        rc = wk_broadcast(comm, &calls, 1, WK_I32, 0, NULL);
    if (rc == 0)
        rc = wk_barrier(comm, NULL);
    from_us = now_us();
    for (int c = 0; c < calls && rc == 0; c++)
        rc = once(comm, place, which, data, count);
    if (rc != 0) {
        fprintf(stderr, "%s\n", wk_comm_error(comm));
        _exit(1);
    }
    return (now_us() - from_us) / calls;
}

static void time_all(struct wk_comm *comm, const struct place *place, float *data,
                     struct times *ret)
{
    for (int s = 0; s < SIZES; s++) {
        size_t bytes = bytes_of(s);
        double turns[3 + BROADCASTS][TURNS];
        for (int t = 0; t < TURNS; t++)
            for (int w = 0; w < place->count + BROADCASTS; w++) {
                bool direct = w < place->count && place->ways[w] == WAY_DIRECT;
                turns[w][t] = direct && bytes > WAY_DIRECT_BYTES_MAX
                                  ? NEVER
                                  : time_calls(comm, place, w, data, bytes / sizeof(*data));
            }
        for (int w = 0; w < place->count + BROADCASTS; w++) {
            double us = quantile(turns[w], TURNS, 0.5);
            if (w < place->count)
                ret->reduce[s][w] = us;
            else
                ret->broadcast[s][w - place->count] = us;
        }
    }
}

/* --- the row */

/* How far above the best of each size: the sum of the factors. */
static double loss(const struct times *times, int count, const int cuts[2])
{
    double sum = 0;
    for (int s = 0; s < SIZES; s++) {
        int way = s < cuts[0] ? 0 : s < cuts[1] || count < 3 ? 1 : 2;
        double best = times->reduce[s][0];
        for (int w = 1; w < count; w++)
            best = times->reduce[s][w] < best ? times->reduce[s][w] : best;
        sum += times->reduce[s][way] / best;
    }
    return sum;
}

/* Straight below size number `cut`. */
static double broadcast_loss(const struct times *times, int cut)
{
    double sum = 0;
    for (int s = 0; s < SIZES; s++) {
        const double *us = times->broadcast[s];
        sum += us[s >= cut] / (us[0] < us[1] ? us[0] : us[1]);
    }
    return sum;
}

/* cuts[w]: the first size at which way w is left for the next. */
static void best_cuts(const struct times *times, int count, int ret_cuts[2])
{
    double least = NEVER * SIZES;
    for (int a = 0; a <= SIZES; a++)
        for (int b = a; b <= SIZES; b++) {
            double sum = loss(times, count, (int[]){a, b});
            if (sum < least) {
                least = sum;
                ret_cuts[0] = a;
                ret_cuts[1] = b;
            }
        }
}

/* Half way, as sizes go, between the last that is in and the first that is not. */
static size_t limit_of(int cut)
{
    return cut == 0 ? 0 : bytes_of(cut - 1) * 2;
}

static void print_limit(const char *way, size_t limit, bool last)
{
    if (last)
        printf("{%s, ANY}", way);
    else if (limit >= 1024)
        printf("{%s, KIB(%zu)}, ", way, limit / 1024);
    else if (limit > 0)
        printf("{%s, %zu}, ", way, limit);
}

static void print_row(const struct place *place, int world, const struct times *times,
                      int connections)
{
    static const char *const identifiers[] = {"WAY_DIRECT", "WAY_SLICED", "WAY_CHAIN",
                                              "WAY_TWO_LEVELS"};
    int cuts[2] = {0, SIZES}, broadcast = 0;
    best_cuts(times, place->count, cuts);
    bool third = place->count == 3 && cuts[1] < SIZES;
    printf("    {%s, %d, {", place->name, world);
    print_limit(identifiers[place->ways[0]], limit_of(cuts[0]), false);
    if (cuts[1] > cuts[0] || !third)
        print_limit(identifiers[place->ways[1]], limit_of(cuts[1]), !third);
    if (third)
        print_limit(identifiers[place->ways[2]], 0, true);
    for (int cut = 1; cut <= SIZES; cut++)
        if (broadcast_loss(times, cut) < broadcast_loss(times, broadcast))
            broadcast = cut;
    printf("}, %zu, %d},\n\n", limit_of(broadcast), connections);
    fflush(stdout);
}

static void print_times(const struct place *place, int world, const struct times *times)
{
    printf("%s, %d ranks, us\n%10s", place->name, world, "bytes");
    for (int w = 0; w < place->count; w++)
        printf(" %12s", way_name(place->ways[w]));
    printf(" %12s %12s\n", "bc direct", "bc sliced");
    for (int s = 0; s < SIZES; s++) {
        printf("%10zu", bytes_of(s));
        for (int w = 0; w < place->count; w++)
            if (times->reduce[s][w] < NEVER)
                printf(" %12.1f", times->reduce[s][w]);
            else
                printf(" %12s", "");
        printf(" %12.1f %12.1f\n", times->broadcast[s][0], times->broadcast[s][1]);
    }
}

/* --- ranks */

struct run {
    const struct place *place;
    int world;
    int connections;
    struct times *times; /* in memory that all share; rank 0 writes */
};

static int be_rank(struct comm_listener *listener, const struct comm_options *options,
                   const struct run *run)
{
    struct wk_comm *comm;
    struct wk_arena *arena = NULL;
    struct error err = {0};
    if (comm_connect(listener, options, &comm, &err) != 0) {
        fprintf(stderr, "rank %d: %s\n", options->rank, err.text);
        return 1;
    }
    bind_to_core(options->rank);
    bool in_arena = run->place->placement == PLACED_EVENLY;
    if (in_arena && (wk_arena_new(MOST_BYTES, &arena) != 0 || wk_comm_register(comm, arena) != 0))
        return 1;
    float *data = in_arena ? wk_arena_data(arena) : malloc(MOST_BYTES);
    values_fill(data, MOST_BYTES / sizeof(*data), options->rank);
    struct times times;
    time_all(comm, run->place, data, &times);
    if (options->rank == 0)
        *run->times = times;
    wk_comm_close(comm);
    if (!in_arena)
        free(data);
    wk_arena_free(arena);
    return 0;
}

static int run_ranks(const struct run *run)
{
    struct comm_listener *listeners[RANKS_MAX];
    const char *endpoints[RANKS_MAX];
    int hosts[RANKS_MAX], bad = 0;
    pid_t pids[RANKS_MAX];
    for (int r = 0; r < run->world; r++) {
        char address[32];
        hosts[r] = run->place->ranks_per_host ? r / run->place->ranks_per_host : 0;
        snprintf(address, sizeof(address), "127.0.0.%d", 2 + hosts[r]);
        if (comm_listen(address, &listeners[r], NULL) != 0)
            return 1;
        endpoints[r] = comm_listener_endpoint(listeners[r]);
    }
    fflush(stdout);
    for (int r = 0; r < run->world; r++) {
        struct comm_options options = {.rank = r,
                                       .world = run->world,
                                       .endpoints = endpoints,
                                       .hosts = hosts,
                                       .generation = 1,
                                       .timeout_ms = 60000,
                                       .tcp_connections = run->connections};
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(be_rank(listeners[r], &options, run));
    }
    for (int r = 0; r < run->world; r++)
        comm_listener_close(listeners[r]);
    for (int r = 0; r < run->world; r++) {
        int status = -1;
        bad |= waitpid(pids[r], &status, 0) != pids[r] || status != 0;
    }
    return bad;
}

/* The fewest connections whose large all-reduces take at most 5 % more than the best. */
static int best_connections(const struct times *times)
{
    double us[CONNECTIONS], best = NEVER;
    for (int c = 0; c < CONNECTIONS; c++) {
        us[c] = times[c].reduce[SIZES - 1][1];
        best = us[c] < best ? us[c] : best;
        printf("%d connection%s: %.0f us for %zu bytes in slices\n", 1 << c, c ? "s" : "", us[c],
               bytes_of(SIZES - 1));
    }
    for (int c = 0; c < CONNECTIONS; c++)
        if (us[c] <= best * 1.05)
            return 1 << c;
    return 1;
}

static int measure(const struct place *place, int world, struct times *shared)
{
    struct times times[CONNECTIONS];
    int bad = 0, tries = place->placement == PLACED_APART ? CONNECTIONS : 1;
    for (int c = 0; c < tries && !bad; c++) {
        struct run run = {place, world, 1 << c, shared};
        bad = run_ranks(&run);
        times[c] = *shared;
    }
    if (bad)
        return 1;
    print_times(place, world, &times[0]);
    print_row(place, world, &times[0], tries > 1 ? best_connections(times) : 1);
    return 0;
}

static int number(int argc, char **argv, int which, int otherwise)
{
    return argc > which ? (int)strtol(argv[which], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const int placements = (int)(sizeof(places) / sizeof(places[0]));
    int most = number(argc, argv, 1, RANKS_USUAL), first = number(argc, argv, 2, 2);
    int only = number(argc, argv, 3, -1), bad = 0;
    struct times *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || first < 2 || most < first || most > RANKS_MAX ||
        only >= placements) {
        fprintf(stderr, "usage: %s [MOST_RANKS [FIRST_RANKS [PLACEMENT]]], 2 to %d, 0 to %d\n",
                argv[0], RANKS_MAX, placements - 1);
        return 2;
    }
    for (int p = 0; p < placements; p++)
        for (int world = first; world <= most && !bad; world *= 2)
            if ((only < 0 || only == p) && world > places[p].ranks_per_host)
                bad = measure(&places[p], world, shared);
    return bad;
}
