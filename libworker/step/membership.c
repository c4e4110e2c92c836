#include "libworker/step/membership.h"

#include "libworker/comm/comm.h"

static void lock(struct membership *group)
{
    (void)pthread_mutex_lock(&group->lock);
}

static void unlock(struct membership *group)
{
    (void)pthread_mutex_unlock(&group->lock);
}

void membership_init(struct membership *group)
{
    *group = (struct membership){.world = 1};
    (void)pthread_mutex_init(&group->lock, NULL);
}

void membership_fini(struct membership *group)
{
    comm_listener_close(group->listener);
    (void)pthread_mutex_destroy(&group->lock);
}

void membership_begin(struct membership *group, uint64_t generation)
{
    lock(group);
    group->generation = generation;
    unlock(group);
}

void membership_connected(struct membership *group, struct wk_comm *comm, int rank, int world)
{
    lock(group);
    group->connecting = (struct wk_comm_status){0};
    group->comm = comm;
    group->rank = rank;
    group->world = world;
    unlock(group);
}

struct wk_comm *membership_detach(struct membership *group)
{
    lock(group);
    struct wk_comm *comm = group->comm;
    group->comm = NULL;
    unlock(group);
    return comm;
}

void membership_connecting(struct membership *group, const struct wk_comm_status *status)
{
    lock(group);
    group->connecting = *status;
    unlock(group);
}

void membership_status(struct membership *group, struct wk_comm_status *ret)
{
    lock(group);
    if (group->comm)
        comm_longest_wait(group->comm, ret);
    else
        *ret = group->connecting;
    unlock(group);
}

void membership_abort(struct membership *group, uint64_t generation)
{
    lock(group);
    if (group->comm && group->generation == generation)
        wk_comm_abort(group->comm);
    unlock(group);
}

uint64_t membership_generation(struct membership *group)
{
    lock(group);
    uint64_t generation = group->generation;
    unlock(group);
    return generation;
}

int membership_rank(struct membership *group)
{
    lock(group);
    int rank = group->rank;
    unlock(group);
    return rank;
}
