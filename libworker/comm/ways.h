/* Chooses the way of an all-reduce or a broadcast that cannot run in place. The choice is from a
 * measured table (ways.c), by placement of the ranks, their number and the number of bytes; or from
 * comm_options.ways.
 *
 * Every rank must get the same answer, so it depends on nothing else. Pure, any thread.
 */
#ifndef COMM_WAYS_H
#define COMM_WAYS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/settings/way.h"

enum placement {
    PLACED_TOGETHER, /* all on one host */
    PLACED_EVENLY,   /* hosts with the same number of consecutive ranks, at least 2 */
    PLACED_APART,    /* one host each */
    PLACED_OTHERWISE,
};

struct ways {
    struct way_step steps[WAY_STEPS_MAX];
    int count;
    size_t broadcast_direct_bytes; /* up to here the root sends the whole to each rank */
    int tcp_connections;           /* of a pair */
    bool forced;                   /* set by comm_options.ways */
};

/* From the table. */
struct ways ways_measured(enum placement placement, int world);

/* Parse "direct:8K sliced:1M chain": the ways of an all-reduce, each up to its number of bytes, the
 * last without limit. A way that is impossible in this placement is skipped, because a world may
 * re-form elsewhere. Changes *ways. WK_EINVAL with the reason. */
int ways_parse(const char *text, enum placement placement, struct ways *ways, struct error *err);

enum way ways_at(const struct ways *ways, size_t bytes);
const char *way_name(enum way way);

#endif
