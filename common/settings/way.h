/* The ways of an all-reduce between hosts, and the text of the setting comm_ways: "direct:8K
 * sliced:1M chain". Pure; any thread. */
#ifndef SETTINGS_WAY_H
#define SETTINGS_WAY_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* libworker/comm/by_links.c and two_level.c have the steps and bytes of each. */
#define WAY_LIST(X)                                                                                \
    X(DIRECT, "direct")         /* everything to every rank, each sums all */                      \
    X(SLICED, "sliced")         /* each slice to its owner, the sums to every rank */              \
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

#define WAY_NO_LIMIT SIZE_MAX

/* `way` for vectors up to this many bytes; the last has no limit. */
struct way_step {
    enum way way;
    size_t up_to_bytes;
};

const char *way_name(enum way way);

/* At most WAY_STEPS_MAX - 1 ways. E_INVALID_ARGUMENT with the error. */
int way_steps_parse(const char *text, struct way_step ret[WAY_STEPS_MAX - 1], int *ret_count,
                    struct error *err);

#endif
