#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "libworker/device/device.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/step/agree_memory.h"
#include "libworker/step/context.h"
#include "libworker/step/memory_budget.h"
#include "libworker/tensor/memory_limit.h"

enum {
    PAGE_FLOATS = 1024,
    SPARE_PART = 32,   /* of the rest: page tables, stacks, libraries */
    UNITS_AT_ONCE = 5, /* sharded: parameters and gradients that a pass gathers and frees */
};

/* Promised pages that were never written are not in a group's count yet. */
static void touch(float *data, size_t count)
{
    volatile float *at = data;
    for (size_t i = 0; at && i < count; i += PAGE_FLOATS) {
        float kept = at[i];
        at[i] = kept;
    }
}

static void touch_state(struct wk_context *ctx)
{
    struct unit *unit;
    bool pages = device_host_reads(ctx->compute.device); /* other memory is there once it is made */
    units_each(unit, ctx) {
        struct wk_optimizer *o = pages ? unit->optimizer : NULL;
        strategy_clear(&unit->strategy);
        for (int s = 0; o && !o->mapped && s < o->ops->n_states; s++)
            touch(o->state[s], o->count);
        if (o && !o->mapped)
            touch(o->own, o->own_count);
    }
}

/* Memory of training besides the tried pass: a checkpoint's copy of the state, and gathered units
 * of a cut model. */
static int64_t taken_beside(struct wk_context *ctx)
{
    struct checkpoint_tensor *tensors;
    const struct unit *unit;
    int64_t bytes = 0;
    int count;
    bool saves = ctx->saving.saver && (ctx->group.rank == 0 || ctx->cut.is_sharded);
    if (saves && !state_tensors(ctx, STATE_SAVES, &tensors, &count, NULL)) {
        for (int i = 0; i < count; i++)
            bytes += (int64_t)tensors[i].bytes;
        free(tensors);
    }
    units_each(unit, ctx) {
        size_t largest = 0;
        const struct shard_plan *plan = strategy_plan(&unit->strategy);
        for (int i = 0; plan && i < plan->n_units; i++)
            largest = plan->units[i].count > largest ? plan->units[i].count : largest;
        bytes += (int64_t)(largest * sizeof(float) * UNITS_AT_ONCE);
    }
    return bytes;
}

/* Identifies shared memory: digests of a machine and of a group in it. */
struct neighbour {
    int32_t machine, group;
};

static struct neighbour neighbour_of(const struct memory_limit *limit)
{
    char id[64] = "", space[64] = ""; /* groups of two containers may have one name */
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t size = file ? fread(id, 1, sizeof(id), file) : 0;
    if (file)
        (void)fclose(file);
    ssize_t length = readlink("/proc/self/ns/cgroup", space, sizeof(space));
    uint32_t machine = crc32c(0, id, size);
    uint32_t group = crc32c(machine, limit->group, strlen(limit->group));
    group = crc32c(group, space, length > 0 ? (size_t)length : 0);
    return (struct neighbour){(int32_t)machine, (int32_t)group};
}

/* Those of all ranks; the caller frees them. */
static int neighbours(struct wk_context *ctx, struct neighbour own, struct neighbour **ret,
                      struct error *err)
{
    struct neighbour *all = calloc((size_t)ctx->group.world, sizeof(*all));
    int rc = memory_agree(ctx, all, "ask the others", err);
    if (!rc && ctx->group.comm)
        rc = wk_all_gather(ctx->group.comm, &own, all, 2, WK_I32, NULL);
    else if (!rc)
        all[0] = own;
    if (rc)
        free(all);
    else
        *ret = all;
    return rc;
}

/* This rank's share of what its groups have left, which all ranks of a machine are about to use. */
static int part_of_memory(struct wk_context *ctx, int64_t *ret, struct error *err)
{
    struct memory_limit limit;
    touch_state(ctx);
    memory_limit_read("", &limit);
    struct neighbour own = neighbour_of(&limit), *all;
    int same_group = 0, same_machine = 0;
    int rc = neighbours(ctx, own, &all, err);
    if (rc)
        return rc;
    for (int i = 0; i < ctx->group.world; i++) {
        same_machine += all[i].machine == own.machine;
        same_group += all[i].machine == own.machine && all[i].group == own.group;
    }
    free(all);
    *ret = MEMORY_UNLIMITED;
    if (limit.own != MEMORY_UNLIMITED)
        *ret = limit.own / same_group;
    if (limit.above != MEMORY_UNLIMITED && limit.above / same_machine < *ret)
        *ret = limit.above / same_machine;
    if (*ret != MEMORY_UNLIMITED) {
        *ret -= *ret / SPARE_PART + taken_beside(ctx);
        *ret = *ret > 0 ? *ret : 0;
    }
    return 0;
}

/* The limit belongs to the process. Searches of several contexts share it: the lowest one applies,
 * and the last search that ends restores the original limit. */
static struct {
    pthread_mutex_t lock;
    int searches;
    struct rlimit before;
} limited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool limit_begin(rlim_t bytes)
{
    struct rlimit during;
    (void)pthread_mutex_lock(&limited.lock);
    bool done = getrlimit(RLIMIT_DATA, &during) == 0;
    if (done && !limited.searches)
        limited.before = during;
    during.rlim_cur = bytes < during.rlim_cur ? bytes : during.rlim_cur;
    done = done && setrlimit(RLIMIT_DATA, &during) == 0;
    limited.searches += done;
    (void)pthread_mutex_unlock(&limited.lock);
    return done;
}

int memory_budget_begin(struct wk_context *ctx, struct memory_budget *ret, struct error *err)
{
    int64_t part, data = memory_data_bytes("");
    *ret = (struct memory_budget){0};
    int rc = part_of_memory(ctx, &part, err);
    if (!rc && part != MEMORY_UNLIMITED && data >= 0)
        ret->is_limited = limit_begin((rlim_t)(data + part));
    return rc;
}

void memory_budget_end(const struct memory_budget *budget)
{
    if (!budget->is_limited)
        return;
    (void)pthread_mutex_lock(&limited.lock);
    if (--limited.searches == 0)
        (void)setrlimit(RLIMIT_DATA, &limited.before);
    (void)pthread_mutex_unlock(&limited.lock);
}
