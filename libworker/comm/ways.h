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
#include "common/settings/way.h"

enum placement {
    PLACED_TOGETHER, /* all on one host */
    PLACED_EVENLY,   /* hosts of the same number of consecutive ranks, at least 2 */
    PLACED_APART,    /* a host each */
    PLACED_OTHERWISE,
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
