#include <stdlib.h>

#include <worker/error.h>

#include "libworker/session/session.h"

int session_group_init(struct session_group *group, int world, struct error *err)
{
    if (world < 1 || world > COMM_WORLD_MAX)
        return error_set(err, WK_EINVAL, "a world of %d, at most %d are possible", world,
                         COMM_WORLD_MAX);
    size_t n = (size_t)world;
    *group = (struct session_group){.world = world};
    group->endpoints = calloc(n, sizeof(*group->endpoints));
    group->endpoint_list = calloc(n, sizeof(char *));
    group->hosts = calloc(n, sizeof(*group->hosts));
    if (!group->endpoints || !group->endpoint_list || !group->hosts) {
        session_group_fini(group);
        return error_set(err, WK_ENOMEM, "no memory for a world of %d", world);
    }
    for (size_t i = 0; i < n; i++)
        group->endpoint_list[i] = group->endpoints[i];
    return 0;
}

void session_group_fini(struct session_group *group)
{
    free(group->endpoints);
    free(group->endpoint_list);
    free(group->hosts);
    *group = (struct session_group){0};
}
