/* One suite for the store contract (coordinator/store/store.h), run on every implementation. A
 * world opens a store, and reopens it as after a crash of the coordinator: what was not committed
 * is gone, what was is there.
 */
#ifndef STORE_SUITE_H
#define STORE_SUITE_H

#include "coordinator/store/store.h"

struct store_world {
    const char *name;
    struct store *store;
    char dir[64];
    void (*open)(struct store_world *world);
    void (*reopen)(struct store_world *world);        /* as after a crash */
    void (*break_commits)(struct store_world *world); /* from now on, for want of space */
    void (*mend_commits)(struct store_world *world);
    void (*close)(struct store_world *world);
};

void world_memory(struct store_world *ret);
void world_sqlite(struct store_world *ret);

void past_states_come_back(struct store_world *world); /* past.c: one of the stories */

/* Runs everything; asserts. */
void store_suite(void (*make)(struct store_world *ret));

#endif
