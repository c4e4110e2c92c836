/* Communicators of some of the ranks. Members open new listeners, exchange their addresses through
 * the parent, and connect as in any generation, with a secret that only this group can derive. A
 * group shares nothing with its parent, except that aborting the parent aborts it. */
#include "libworker/comm/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/sha256.h"
#include "libworker/comm/control.h"
#include "libworker/comm/failure.h"
#include "libworker/comm/state.h"

static int compare_seats(const void *left, const void *right)
{
    const struct group_seat *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void derive_secret(const struct wk_comm *comm, int color, uint8_t ret[COMM_SECRET_BYTES])
{
    struct hmac_sha256 hmac;
    uint64_t split = comm->splits;
    int32_t which = color;
    hmac_sha256_init(&hmac, comm->secret, COMM_SECRET_BYTES);
    hmac_sha256_update(&hmac, "group", 5);
    hmac_sha256_update(&hmac, &split, sizeof(split));
    hmac_sha256_update(&hmac, &which, sizeof(which));
    hmac_sha256_final(&hmac, ret);
}

static bool parent_failed(void *arg)
{
    struct wk_comm *parent = arg;
    control_sweep(parent);
    return atomic_load(&parent->failure) != 0;
}

/* A rank's number in the communicator above all groups. */
static int origin_of(const struct wk_comm *parent, const struct group_seat *member)
{
    return parent->origins ? parent->origins[member->rank] : member->rank;
}

static void name_group(const struct wk_comm *parent, const char *name, char ret[COMM_NAME_BYTES])
{
    snprintf(ret, COMM_NAME_BYTES, "%.20s/%.10s", parent->name, name ? name : "group");
}

/* A group that is connecting, for observers of its parent. */
struct forming {
    struct wk_comm *parent;
    const struct group_seat *members;
    const char *name;
};

static void report_connecting(void *arg, const struct wk_comm_status *status)
{
    const struct forming *forming = arg;
    struct wk_comm *parent = forming->parent;
    struct wk_comm_status told = *status;
    const int named = (int)(sizeof(told.waiting) / sizeof(told.waiting[0]));
    name_group(parent, forming->name, told.name);
    for (int i = 0; i < told.waiting_count && i < named; i++)
        told.waiting[i] = origin_of(parent, &forming->members[told.waiting[i]]);
    pthread_mutex_lock(&parent->fail_lock);
    parent->connecting = told;
    pthread_mutex_unlock(&parent->fail_lock);
}

static int connect_members(struct forming *forming, struct comm_listener *listener, int n,
                           struct wk_comm **ret)
{
    struct wk_comm *parent = forming->parent;
    const struct group_seat *members = forming->members;
    const char *endpoints[COMM_WORLD_MAX];
    int hosts[COMM_WORLD_MAX];
    struct error err = {0};
    struct comm_options options = {.world = n,
                                   .endpoints = endpoints,
                                   .hosts = hosts,
                                   .generation = parent->generation,
                                   .timeout_ms = parent->timeout_ms,
                                   .tcp_connections = parent->tcp_connections,
                                   .cancelled = parent_failed,
                                   .cancelled_arg = parent,
                                   .waits = report_connecting,
                                   .waits_arg = forming};
    for (int i = 0; i < n; i++) {
        endpoints[i] = members[i].endpoint;
        hosts[i] = members[i].host;
        if (members[i].rank == parent->rank)
            options.rank = i;
    }
    derive_secret(parent, members[0].color, options.secret);
    int rc = comm_connect(listener, &options, ret, &err);
    report_connecting(forming, &(struct wk_comm_status){0});
    if (rc)
        return comm_fail(parent, rc, -1, "%s: a group did not connect: %s", parent->name, err.text);
    return 0;
}

static int attach_group(struct wk_comm *parent, struct wk_comm *group,
                        const struct group_seat *members, const char *name)
{
    bool failed;
    group->origins = calloc((size_t)group->world, sizeof(*group->origins));
    if (!group->origins)
        return comm_argument_error(parent, WK_ENOMEM, "no memory for a group");
    for (int p = 0; p < group->world; p++)
        group->origins[p] = origin_of(parent, &members[p]);
    name_group(parent, name, group->name);
    for (int i = 0; i < parent->arena_count; i++)
        (void)wk_comm_register(group, parent->arenas[i].arena);
    pthread_mutex_lock(&parent->fail_lock);
    group->parent = parent;
    group->next_sibling = parent->first_child;
    parent->first_child = group;
    failed = atomic_load(&parent->failure) != 0;
    pthread_mutex_unlock(&parent->fail_lock);
    if (failed)
        comm_fail(group, WK_EABORT, -1, "%s: its parent failed", group->name);
    return 0;
}

/* Gather all ranks' seats, then keep the members of our color in order; returns their number. */
static int members_of(const struct wk_comm *comm, struct group_seat *seats, int color)
{
    int n = 0;
    for (int p = 0; p < comm->world; p++)
        if (seats[p].color == color)
            seats[n++] = seats[p];
    qsort(seats, (size_t)n, sizeof(*seats), compare_seats);
    return n;
}

int wk_comm_split(struct wk_comm *comm, const struct wk_split *split, struct wk_comm **ret_group)
{
    if (!comm)
        return comm_missing();
    if (!split || !ret_group)
        return comm_argument_error(comm, WK_EINVAL, "wk_comm_split without %s",
                                   split ? "a place for the group" : "a color");
    struct comm_listener *listener = NULL;
    struct error err = {0};
    struct group_seat *seats = calloc((size_t)comm->world + 1, sizeof(*seats));
    struct group_seat *own = seats ? &seats[comm->world] : NULL;
    struct wk_comm *group = NULL;
    if (!seats)
        return comm_argument_error(comm, WK_ENOMEM, "no memory for a group");
    int rc = comm->world > 1 ? comm_listen(comm->bind_host, &listener, &err) : 0;
    if (rc) {
        free(seats);
        return comm_fail(comm, rc, -1, "%s: rank %d cannot listen for a group: %s", comm->name,
                         comm->rank, err.text);
    }
    *own = (struct group_seat){split->color < 0 ? -1 : split->color, split->key, comm->rank,
                               comm->hosts[comm->rank], ""};
    if (listener)
        snprintf(own->endpoint, sizeof(own->endpoint), "%s", comm_listener_endpoint(listener));
    rc = wk_all_gather(comm, own, seats, sizeof(*own), WK_U8, NULL);
    comm->splits++;
    if (!rc && split->color >= 0) {
        int n = members_of(comm, seats, split->color);
        struct forming forming = {comm, seats, split->name};
        rc = connect_members(&forming, listener, n, &group);
        if (!rc)
            rc = attach_group(comm, group, seats, split->name);
        if (rc) {
            wk_comm_close(group);
            group = NULL;
        }
    }
    comm_listener_close(listener);
    free(seats);
    if (!rc)
        *ret_group = group;
    return rc;
}

int wk_comm_subgroup(struct wk_comm *comm, const int *ranks, int n, struct wk_comm **ret_group)
{
    struct wk_split split = {.name = "list", .color = -1};
    if (!comm)
        return comm_missing();
    if (n < 0 || n > comm->world)
        return comm_argument_error(comm, WK_EINVAL, "a group of %d of %d ranks", n, comm->world);
    for (int i = 0; i < n; i++) {
        if (ranks[i] == comm->rank && split.color >= 0)
            return comm_argument_error(comm, WK_EINVAL, "rank %d is listed twice", ranks[i]);
        if (ranks[i] == comm->rank)
            split = (struct wk_split){"list", 0, i};
    }
    return wk_comm_split(comm, &split, ret_group);
}

int wk_comm_axis(struct wk_comm *comm, const struct wk_mesh *mesh, int axis,
                 struct wk_comm **ret_group)
{
    int64_t ranks = 1;
    int inner = 1;
    char name[16];
    if (!comm)
        return comm_missing();
    if (axis < 0 || axis >= mesh->axes)
        return comm_argument_error(comm, WK_EINVAL, "a mesh of %d axes has no axis %d", mesh->axes,
                                   axis);
    for (int a = 0; a < mesh->axes; a++) {
        ranks *= mesh->sizes[a];
        if (mesh->sizes[a] < 1 || ranks > comm->world)
            ranks = INT32_MAX;
        if (a > axis)
            inner *= mesh->sizes[a];
    }
    if (ranks != comm->world)
        return comm_argument_error(comm, WK_EINVAL, "a mesh that has not exactly %d ranks",
                                   comm->world);
    int coordinate = comm->rank / inner % mesh->sizes[axis];
    snprintf(name, sizeof(name), "axis %d", axis);
    struct wk_split split = {name, comm->rank - coordinate * inner, coordinate};
    return wk_comm_split(comm, &split, ret_group);
}
