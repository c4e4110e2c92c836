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

/* A transaction; each aborts the test if it fails. */
void store_world_begin(struct store_world *world);
void store_world_commit(struct store_world *world);

/* Stories that are told elsewhere: past.c, access.c. */
void past_states_come_back(struct store_world *world);
void tokens_and_words_stay(struct store_world *world);
void tokens_and_tenants_are_replaced_not_doubled(struct store_world *world);
void secrets_are_replaced_and_removed(struct store_world *world);
void the_audit_trail_is_numbered_without_gaps(struct store_world *world);

/* Runs everything; asserts. */
void store_suite(void (*make)(struct store_world *ret));

#endif
