#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/env/disk_os.h"
#include "coordinator/store/store_memory.h"
#include "coordinator/store/store_sqlite.h"
#include "tests/conformance/store/suite.h"

static void memory_open(struct store_world *world)
{
    insist(store_memory_new(&world->store, NULL) == 0);
}

static void memory_reopen(struct store_world *world)
{
    world->store->verbs->rollback(world->store); /* the coordinator died; its transaction with it */
}

static void memory_break(struct store_world *world)
{
    store_memory_fail_commits(world->store, 1, E_RESOURCE_EXHAUSTED);
}

static void memory_mend(struct store_world *world)
{
    store_memory_fail_commits(world->store, 0, 0);
}

static void memory_close(struct store_world *world)
{
    store_close(world->store);
}

void world_memory(struct store_world *ret)
{
    *ret = (struct store_world){.name = "memory",
                                .open = memory_open,
                                .reopen = memory_reopen,
                                .break_commits = memory_break,
                                .mend_commits = memory_mend,
                                .close = memory_close};
}

static void sqlite_again(struct store_world *world)
{
    struct error err = {0};
    cr_assert_eq(store_sqlite_open(world->dir, &world->store, &err), 0, "%s", err.text);
}

static void sqlite_open(struct store_world *world)
{
    snprintf(world->dir, sizeof(world->dir), "/tmp/muster-store-XXXXXX");
    insist(mkdtemp(world->dir));
    sqlite_again(world);
}

static void sqlite_reopen(struct store_world *world)
{
    store_close(world->store); /* undoes an open transaction; kill -9 has its own test */
    sqlite_again(world);
}

static void sqlite_break(struct store_world *world)
{
    insist(store_sqlite_limit_pages(world->store, 1, NULL) == 0);
}

static void sqlite_mend(struct store_world *world)
{
    insist(store_sqlite_limit_pages(world->store, 0, NULL) == 0);
}

static void sqlite_close(struct store_world *world)
{
    store_close(world->store);
    struct disk disk = disk_os();
    insist(disk.remove_tree(disk.self, world->dir, NULL) == 0);
}

void world_sqlite(struct store_world *ret)
{
    *ret = (struct store_world){.name = "sqlite",
                                .open = sqlite_open,
                                .reopen = sqlite_reopen,
                                .break_commits = sqlite_break,
                                .mend_commits = sqlite_mend,
                                .close = sqlite_close};
}

Test(store, memory_keeps_the_contract)
{
    store_suite(world_memory);
}

Test(store, sqlite_keeps_the_contract)
{
    store_suite(world_sqlite);
}
