/* What every env.net must do, told once and run on each implementation: net_nng over tcp and ipc
 * here, the simulated network in tests/sim. An implementation brings a world: how to start a
 * program (a net and the loop it calls back on), where programs may listen, and how to let time
 * pass.
 */
#ifndef NET_SUITE_H
#define NET_SUITE_H

#include <stdint.h>

#include "common/env/net.h"

struct loop;

struct net_world {
    const char *name; /* shown with each result */
    void *self;
    /* A new program. Lives until the world ends; `ret_loop` is run by `turn` only. */
    int (*program)(void *self, struct net **ret_net, struct loop **ret_loop);
    /* Where to listen: a fresh place each time, one that may be listened at again after a close. */
    const char *(*place)(void *self);
    /* Let `ms` pass on the loops of all programs. */
    void (*turn)(void *self, int64_t ms);
};

/* Runs all cases, prints one line each; returns the number that failed. */
int net_suite_run(const struct net_world *world);

#endif
