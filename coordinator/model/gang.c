#include "coordinator/model/gang.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_internal.h"

enum { PORT_NAME_MAX = ADDRESS_MAX + 16, SLOT_WORD_BITS = 64 };

static void mark_slots(struct node *node, int first, int count, bool taken)
{
    for (int slot = first; slot < first + count && slot < NODE_SLOTS_MAX; slot++) {
        uint64_t bit = UINT64_C(1) << (slot % SLOT_WORD_BITS);
        if (taken)
            node->slot_map[slot / SLOT_WORD_BITS] |= bit;
        else
            node->slot_map[slot / SLOT_WORD_BITS] &= ~bit;
    }
}

static void count_use(struct node *node, const struct resources *use, int sign)
{
    node->slots_used += sign * use->slots;
    node->cpus_milli_used += sign * use->cpus_milli;
    node->memory_bytes_used += sign * use->memory_bytes;
}

void worker_take(struct cluster *cluster, struct job *job, const struct worker *worker)
{
    struct node *node = cluster_node(cluster, worker->node);
    if (!node)
        return;
    mark_slots(node, worker->slot, job->spec->resources.slots, true);
    count_use(node, &job->spec->resources, 1);
    insist(!map_set(&node->jobs, job->sequence, job, NULL));
    tenant_take(cluster, job->tenant, job->spec->resources.slots);
    job_take(cluster, job, job->spec->resources.slots);
}

void worker_give(struct cluster *cluster, struct job *job, const struct worker *worker)
{
    struct node *node = cluster_node(cluster, worker->node);
    if (!node)
        return;
    mark_slots(node, worker->slot, job->spec->resources.slots, false);
    count_use(node, &job->spec->resources, -1);
    tenant_take(cluster, job->tenant, -job->spec->resources.slots);
    job_take(cluster, job, -job->spec->resources.slots);
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *other = &job->workers[i];
        if (other != worker && other->state != WORKER_EXITED &&
            strcmp(other->node, worker->node) == 0)
            return;
    }
    map_remove(&node->jobs, job->sequence);
}

struct worker *job_add_worker(struct cluster *cluster, struct job *job, const struct worker *worker)
{
    insist(worker->state == WORKER_ASSIGNED);
    insist(job->workers_count == 0 || job->workers[job->workers_count - 1].uid < worker->uid);
    if (job->workers_count >= job->workers_capacity) {
        int capacity = job->workers_count ? job->workers_count * 2 : 4;
        struct worker *workers = realloc(job->workers, sizeof(*workers) * (size_t)capacity);
        insist(workers);
        job->workers = workers;
        job->workers_capacity = capacity;
    }
    struct worker *added = &job->workers[job->workers_count++];
    *added = *worker;
    worker_take(cluster, job, added);
    return added;
}

void job_worker_gone(struct cluster *cluster, struct job *job, struct worker *worker)
{
    if (worker->state == WORKER_EXITED)
        return;
    worker->state = WORKER_EXITED;
    worker_give(cluster, job, worker);
}

void job_forget_workers(struct job *job)
{
    int kept = 0;
    for (int i = 0; i < job->workers_count; i++) {
        const struct worker *worker = &job->workers[i];
        if (worker->state != WORKER_EXITED || group_rank_of_worker(&job->current, worker) >= 0 ||
            group_rank_of_worker(&job->forming, worker) >= 0)
            job->workers[kept++] = *worker;
    }
    job->workers_count = kept;
}

void group_derive(const struct job *job, struct group *group)
{
    free(group->places);
    group->places = NULL;
    group->nodes = 0;
    if (group->world == 0)
        return;
    group->places = calloc((size_t)group->world, sizeof(*group->places));
    int *counts = calloc((size_t)group->world, sizeof(*counts));
    insist(group->places && counts);
    struct strmap seen = {0}; /* node name -> its number + 1 */
    for (int rank = 0; rank < group->world; rank++) {
        const struct worker *worker = job_worker(job, group->members[rank]);
        const char *node = worker ? worker->node : "";
        uintptr_t number = (uintptr_t)strmap_get(&seen, node);
        if (number == 0) {
            number = (uintptr_t)++group->nodes;
            insist(!strmap_set(&seen, node, (void *)number, NULL));
        }
        group->places[rank].node_rank = (int)number - 1;
        counts[number - 1]++;
    }
    for (int rank = 0; rank < group->world; rank++)
        group->places[rank].local_world = counts[group->places[rank].node_rank];
    strmap_fini(&seen);
    free(counts);
}

static const char *port_name(const char *address, int port, char ret[PORT_NAME_MAX])
{
    (void)str_printf(ret, PORT_NAME_MAX, "%s|%d", address, port);
    return ret;
}

void group_take_port(struct cluster *cluster, struct job *job, const struct group *group)
{
    const struct node *node = cluster_node(cluster, group->master_node);
    char name[PORT_NAME_MAX];
    if (group->generation && group->master_port && node)
        insist(!strmap_set(&cluster->ports, port_name(node->address, group->master_port, name), job,
                           NULL));
}

void group_give_port(struct cluster *cluster, struct job *job, const struct group *group)
{
    const struct node *node = cluster_node(cluster, group->master_node);
    char name[PORT_NAME_MAX];
    if (!group->generation || !group->master_port || !node)
        return;
    port_name(node->address, group->master_port, name);
    if (strmap_get(&cluster->ports, name) == job)
        strmap_remove(&cluster->ports, name);
}

static void each_port(struct cluster *cluster, const struct node *node,
                      void (*fn)(struct cluster *, struct job *, const struct group *))
{
    for (struct map_entry *e = map_first(&node->jobs); e; e = map_next(e)) {
        struct job *job = e->value;
        if (strcmp(job->current.master_node, node->name) == 0)
            fn(cluster, job, &job->current);
        if (strcmp(job->forming.master_node, node->name) == 0)
            fn(cluster, job, &job->forming);
    }
}

void cluster_move_node(struct cluster *cluster, struct node *node, const char *address)
{
    if (strcmp(node->address, address) == 0)
        return;
    each_port(cluster, node, group_give_port);
    (void)str_copy(node->address, sizeof(node->address), address);
    each_port(cluster, node, group_take_port);
}

int cluster_free_port(struct cluster *cluster, const struct node *node)
{
    char name[PORT_NAME_MAX];
    int count = node->port_last - node->port_first + 1;
    if (node->port_first <= 0 || count <= 0)
        return 0;
    /* A random start, so that a port just freed is unused while the old owner's socket closes. */
    int start = (int)rng_below(&cluster->rng, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        int port = node->port_first + (start + i) % count;
        if (!strmap_get(&cluster->ports, port_name(node->address, port, name)))
            return port;
    }
    return 0;
}

void group_set(struct cluster *cluster, struct job *job, struct group *group,
               const struct group *value)
{
    uint64_t *members = malloc(sizeof(*members) * (size_t)value->world);
    insist(members && value->world > 0 && value->generation > 0);
    memcpy(members, value->members, sizeof(*members) * (size_t)value->world);
    group_clear(cluster, job, group);
    *group = *value;
    group->members = members;
    group->places = NULL;
    group_derive(job, group);
    group_take_port(cluster, job, group);
}

void group_clear(struct cluster *cluster, struct job *job, struct group *group)
{
    group_give_port(cluster, job, group);
    group_fini(group);
}

void group_move(struct group *to, struct group *from)
{
    never(to->generation); /* its port would be lost: clear it first */
    *to = *from;
    memset(from, 0, sizeof(*from));
}
