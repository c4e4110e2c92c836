#include "libworker/parallel/groups.h"

struct layout layout_of(int rank, int world, int shards, int replicas)
{
    if (shards <= 0)
        shards = replicas > 0 && world % replicas == 0 ? world / replicas : world;
    if (world % shards != 0)
        shards = world;
    return (struct layout){
        .shards = shards,
        .replicas = world / shards,
        .part = rank % shards,
        .replica = rank / shards,
    };
}

int groups_make(struct groups *groups, struct wk_comm *comm, const struct layout *layout,
                struct error *err)
{
    groups_close(groups);
    if (layout->replicas == 1)
        return 0;
    const struct wk_split row = {"shards", layout->replica, layout->part};
    const struct wk_split column = {"replicas", layout->part, layout->replica};
    int rc = wk_comm_split(comm, &row, &groups->row);
    rc = rc ? rc : wk_comm_split(comm, &column, &groups->column);
    return rc ? error_set(err, rc, "%s", wk_comm_error(comm)) : 0;
}

void groups_close(struct groups *groups)
{
    wk_comm_close(groups->row);
    wk_comm_close(groups->column);
    *groups = (struct groups){0};
}
