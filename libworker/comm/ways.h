/* Which way an all-reduce or a broadcast goes that is not done in place: from a table that was
 * measured (ways.c), by where the ranks are, how many they are and how many bytes there are; or as
 * comm_options.ways says.
 *
 * Every rank must come to the same answer, so it depends on nothing else. Pure, any thread.
 */
#ifndef COMM_WAYS_H
#define COMM_WAYS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

/* Of all-reduces; steps and bytes stand at each in by_links.c and two_level.c. */
#define WAY_LIST(X)                                                                                \
    X(DIRECT, "direct")         /* everything to everybody, who sums all */                        \
    X(SLICED, "sliced")         /* each slice to its owner, the sums to everybody */               \
    X(CHAIN, "chain")           /* running sums from rank to rank, results back */                 \
    X(TWO_LEVELS, "two_levels") /* the same from host to host, in place inside */

enum way {
#define X(name, text) WAY_##name,
    WAY_LIST(X)
#undef X
};

#define X(name, text) +1
enum { WAYS = 0 WAY_LIST(X) };
#undef X

enum { WAY_STEPS_MAX = 4, WAY_DIRECT_BYTES_MAX = 256 * 1024, WAYS_TEXT_BYTES = 96 };

enum placement {
    PLACED_TOGETHER, /* all on one host */
    PLACED_EVENLY,   /* hosts of the same number of consecutive ranks, at least 2 */
    PLACED_APART,    /* a host each */
    PLACED_OTHERWISE,
};

/* `way` up to so many bytes of the vector; the last has no limit. */
struct way_step {
    enum way way;
    size_t up_to_bytes;
};

struct ways {
    struct way_step steps[WAY_STEPS_MAX];
    int count;
    size_t broadcast_direct_bytes; /* up to here the root sends everything to everybody */
    int tcp_connections;           /* of a pair */
    bool forced;                   /* by hand */
};

/* From the table. */
struct ways ways_measured(enum placement placement, int world);

/* "direct:8K sliced:1M chain": ways of an all-reduce, each up to so many bytes but the last. One
 * that is not possible for this placement is left out, since a world may re-form elsewhere. Changes
 * *ways. WK_EINVAL with what is wrong. */
int ways_parse(const char *text, enum placement placement, struct ways *ways, struct error *err);

enum way ways_at(const struct ways *ways, size_t bytes);
const char *way_name(enum way way);

#endif
