/* The table. Measured by `build-release/bench/bench_collectives_ways` with a real-time priority. It
 * times every way at every size with the row's number of ranks, in turns, and prints rows;
 * docs/collectives.md has the times.
 *
 * Measured with f32, on two cores of a virtual machine (Zen 5), with loopback addresses as hosts.
 * With more ranks than cores the amount of work decides, not the waiting. On real machines and fast
 * links measure again, and force the best way (comm_options.ways, the setting comm_ways).
 */
#include "libworker/comm/ways.h"

#include <stdint.h>
#include <string.h>

#define KIB(n) ((size_t)(n)*1024)
#define ANY    WAY_NO_LIMIT

/* The first row that fits, for worlds up to `world`. */
static const struct {
    enum placement placement;
    int world;
    struct way_step steps[WAY_STEPS_MAX];
    size_t broadcast_direct_bytes;
    int tcp_connections;
} measured[] = {
    {PLACED_TOGETHER, 2, {{WAY_SLICED, ANY}}, ANY, 1},
    {PLACED_TOGETHER, 256, {{WAY_SLICED, ANY}}, KIB(128), 1},
    {PLACED_EVENLY, 8, {{WAY_DIRECT, KIB(32)}, {WAY_TWO_LEVELS, ANY}}, KIB(128), 1},
    {PLACED_EVENLY,
     256,
     {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, KIB(512)}, {WAY_TWO_LEVELS, ANY}},
     KIB(128),
     1},
    {PLACED_APART, 2, {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, ANY}}, ANY, 1},
    {PLACED_APART, 4, {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, ANY}}, KIB(128), 1},
    {PLACED_APART,
     8,
     {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, KIB(512)}, {WAY_CHAIN, ANY}},
     KIB(128),
     1},
    {PLACED_APART,
     256,
     {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, KIB(2048)}, {WAY_CHAIN, ANY}},
     KIB(128),
     1},
    {PLACED_OTHERWISE, 256, {{WAY_DIRECT, KIB(32)}, {WAY_SLICED, ANY}}, KIB(128), 1},
};

struct ways ways_measured(enum placement placement, int world)
{
    size_t row = 0;
    struct ways ways = {.count = 0};
    while (measured[row].placement != placement || measured[row].world < world)
        row++;
    memcpy(ways.steps, measured[row].steps, sizeof(ways.steps));
    while (ways.steps[ways.count++].up_to_bytes != ANY)
        ;
    ways.broadcast_direct_bytes = measured[row].broadcast_direct_bytes;
    ways.tcp_connections = measured[row].tcp_connections;
    return ways;
}

enum way ways_at(const struct ways *ways, size_t bytes)
{
    int step = 0;
    while (step < ways->count - 1 && bytes > ways->steps[step].up_to_bytes)
        step++;
    return ways->steps[step].way;
}

static bool is_possible(enum way way, enum placement placement)
{
    switch (way) {
    case WAY_DIRECT:
    case WAY_SLICED:
        return true;
    case WAY_CHAIN:
        return placement == PLACED_APART;
    case WAY_TWO_LEVELS:
        return placement == PLACED_EVENLY;
    }
    return false;
}

/* A way that is impossible in this placement is replaced by the way before it, or by slices. */
static void force_ways(struct ways *ways, const struct way_step *steps, int n,
                       enum placement placement)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (is_possible(steps[i].way, placement))
            ways->steps[count++] = steps[i];
    if (count == 0 || ways->steps[count - 1].way == WAY_DIRECT)
        ways->steps[count++].way = WAY_SLICED;
    ways->steps[count - 1].up_to_bytes = ANY;
    ways->count = count;
    ways->forced = true;
}

int ways_parse(const char *text, enum placement placement, struct ways *ways, struct error *err)
{
    struct way_step steps[WAY_STEPS_MAX - 1];
    int n = 0, rc = way_steps_parse(text, steps, &n, err);
    if (!rc)
        force_ways(ways, steps, n, placement);
    return rc;
}
