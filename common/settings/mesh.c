#include "common/settings/mesh.h"

#include "common/settings/setting.h"

/* One size that is given: `whole`: it is all ranks; else it divides them. */
static int misfit(enum setting setting, int64_t size, bool whole, int64_t ranks, struct error *err)
{
    if (!size || (whole ? size == ranks : ranks % size == 0))
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "%s is %lld, %s %lld ranks",
                     setting_rows[setting].name, (long long)size,
                     whole ? "but there are" : "which does not divide", (long long)ranks);
}

int settings_mesh(const struct mesh_sizes *sizes, bool cut, int64_t ranks, struct error *err)
{
    int rc = misfit(SETTING_MESH_DP, sizes->dp, true, ranks, err);
    if (!rc)
        rc = misfit(SETTING_MESH_DP_REPLICATE, sizes->dp_replicate, !cut, ranks, err);
    if (!rc && cut)
        rc = misfit(SETTING_MESH_DP_SHARD, sizes->dp_shard, false, ranks, err);
    if (rc)
        return rc;
    if (!cut || !sizes->dp_replicate || !sizes->dp_shard ||
        sizes->dp_replicate == ranks / sizes->dp_shard)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT,
                     "mesh.dp_replicate %lld times mesh.dp_shard %lld is not the %lld ranks that "
                     "there are",
                     (long long)sizes->dp_replicate, (long long)sizes->dp_shard, (long long)ranks);
}
