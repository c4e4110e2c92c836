#include "libworker/step/agree_kernels.h"

#include <stdlib.h>

#include "libworker/step/agree_memory.h"
#include "libworker/step/context.h"

/* Its place among this machine's tables; each requires everything that the earlier ones require. */
static int64_t level_of(const struct kernel_table *table)
{
    int level = 0;
    while (kernel_cpu_variant(level) && kernel_cpu_variant(level) != table)
        level++;
    return level;
}

static void use(struct wk_context *ctx, const struct kernel_table *table)
{
    struct unit *unit;
    units_each(unit, ctx) {
        unit->model->kernels = table;
        if (unit->optimizer)
            unit->optimizer->kernels = table;
    }
    ctx->kernels.common = table;
}

int kernels_agree(struct wk_context *ctx, struct error *err)
{
    int64_t own = level_of(ctx->kernels.best);
    int64_t *all = calloc((size_t)ctx->group.world, sizeof(*all));
    int rc = memory_agree(ctx, all, "compare the ranks' CPUs", err), least = 0;
    if (rc) {
        free(all);
        return rc;
    }
    rc = wk_all_gather(ctx->group.comm, &own, all, 1, WK_I64, NULL);
    for (int rank = 1; rank < ctx->group.world && !rc; rank++)
        if (all[rank] < all[least])
            least = rank;
    const struct kernel_table *common = rc ? NULL : kernel_cpu_variant((int)all[least]);
    free(all);
    if (rc || !common)
        return error_set(err, rc ? rc : WK_EMISMATCH, "%s",
                         rc ? wk_comm_error(ctx->group.comm)
                            : "ranks run different builds of libworker");
    if (common != ctx->kernels.best && common != ctx->kernels.common)
        context_notice(ctx,
                       "all ranks compute with %s, the most that rank %d's CPU has (this one has "
                       "%s), for the same bits everywhere",
                       common->name, least, ctx->kernels.best->name);
    use(ctx, common);
    return 0;
}
