/* The table. Measured by `build-release/bench/bench_collectives_ways` with a real-time priority: it
 * times every way at every size with as many ranks as the row says, taking turns, and prints rows;
 * docs/collectives.md has the times. f32, on two cores of a virtual machine (Zen 5), hosts played
 * by loopback addresses: with more ranks than cores what counts is how little there is to do, not
 * who waits for whom. On real machines and fast links measure again, and force what wins
 * (comm_options.ways, the setting comm_ways). */
#include "libworker/comm/ways.h"

#include <stdint.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/parse.h"

#define KIB(n) ((size_t)(n)*1024)
#define ANY    SIZE_MAX

/* For worlds up to `world`, the first row that fits. */
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

static const char *const names[] = {
#define X(name, text) text,
    WAY_LIST(X)
#undef X
};

const char *way_name(enum way way)
{
    return names[way];
}

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

static bool possible(enum way way, enum placement placement)
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

/* "sliced:1M" */
static int parse_step(char *word, struct way_step *ret, struct error *err)
{
    char *limit = strchr(word, ':');
    uint64_t bytes = ANY;
    int way = 0;
    if (limit)
        *limit++ = '\0';
    while (way < WAYS && strcmp(names[way], word) != 0)
        way++;
    if (way == WAYS)
        return error_set(err, WK_EINVAL, "'%s' is no way: direct, sliced, chain or two_levels",
                         word);
    if (limit && parse_bytes(limit, &bytes, err) != 0)
        return error_set(err, WK_EINVAL, "way '%s': '%s' is no number of bytes", word, limit);
    *ret = (struct way_step){(enum way)way, bytes};
    return 0;
}

static int check_order(const struct way_step *steps, int n, struct error *err)
{
    for (int i = 0; i < n; i++) {
        size_t up_to = steps[i].up_to_bytes;
        const char *name = names[steps[i].way];
        if (i == n - 1 && up_to != ANY)
            return error_set(err, WK_EINVAL, "way '%s' is the last and has no limit", name);
        if (i < n - 1 && up_to == ANY)
            return error_set(err, WK_EINVAL, "way '%s' needs a limit, \"%s:BYTES\"", name, name);
        if (i > 0 && up_to <= steps[i - 1].up_to_bytes)
            return error_set(err, WK_EINVAL, "way '%s': limits must rise", name);
        if (steps[i].way == WAY_DIRECT && up_to > WAY_DIRECT_BYTES_MAX)
            return error_set(err, WK_EINVAL, "way 'direct' goes up to %d bytes",
                             (int)WAY_DIRECT_BYTES_MAX);
    }
    return n > 0 ? 0 : error_set(err, WK_EINVAL, "a list of ways without a way");
}

/* What is not possible where the ranks are is left to the way before it, or to slices. */
static void force(struct ways *ways, const struct way_step *steps, int n, enum placement placement)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (possible(steps[i].way, placement))
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
    char words[WAYS_TEXT_BYTES], *at = words;
    int n = 0;
    if (strlen(text) >= sizeof(words))
        return error_set(err, WK_EINVAL, "a list of ways has less than %d characters",
                         (int)WAYS_TEXT_BYTES);
    memcpy(words, text, strlen(text) + 1);
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool more = at[length] != '\0';
        at[length] = '\0';
        if (n == WAY_STEPS_MAX - 1)
            return error_set(err, WK_EINVAL, "more than %d ways", WAY_STEPS_MAX - 1);
        int rc = parse_step(at, &steps[n++], err);
        if (rc != 0)
            return rc;
        at += length + more;
    }
    int rc = check_order(steps, n, err);
    if (rc == 0)
        force(ways, steps, n, placement);
    return rc;
}
