/* Nodes, and the changes since a client last asked. Each node has the number of the last list in
 * which it differed from the list before, by a digest of the shown fields, or was first missing.
 * Code that changes or forgets a node therefore needs no notification. A new heartbeat is
 * not a change, because every node has one each second, and neither is a reading of its GPUs. */
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/murmur3.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/scope.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/wire.h"
#include "coordinator/model/cluster_walk.h"

enum { GONE_MAX = 10000 }; /* forgotten nodes that are remembered for clients */

struct node_shown {
    uint64_t digest[2];
    uint64_t version; /* of the list in which this digest first appeared */
    uint64_t seen;    /* number of the last comparison in which the node was known */
    const char *name; /* the map's */
    struct list gone; /* in service->nodes_gone if it is not known any more */
};

static bool digest_of(const Muster__Node *node, struct buf *space, uint64_t ret[2])
{
    Muster__Node lasting = *node;
    Muster__Gpu gpus[NODE_GPUS_MAX], *list[NODE_GPUS_MAX];
    lasting.seen_wall_ms = 0;
    for (size_t i = 0; i < node->n_gpus; i++) {
        gpus[i] = *node->gpus[i];
        gpus[i].now = NULL;
        list[i] = &gpus[i];
    }
    lasting.gpus = list;
    buf_clear(space);
    if (rpc_message_pack(&lasting.base, space, NULL))
        return false;
    murmur3(space->data, space->size, ret);
    return true;
}

static struct node_shown *shown_of(struct service *service, const char *name)
{
    struct node_shown *shown = strmap_get(&service->nodes_shown, name);
    if (shown)
        return shown;
    shown = calloc(1, sizeof(*shown));
    if (!shown || strmap_set(&service->nodes_shown, name, shown, NULL)) {
        free(shown);
        return NULL;
    }
    shown->name = strmap_find(&service->nodes_shown, name)->name;
    list_init(&shown->gone);
    return shown;
}

/* Readers of an older list than this one's have to read the whole list. */
static void drop_oldest_gone(struct service *service)
{
    struct node_shown *shown = list_first(&service->nodes_gone, struct node_shown, gone);
    service->nodes_gone_above = shown->version;
    service->nodes_gone_count--;
    list_remove(&shown->gone);
    free(strmap_remove(&service->nodes_shown, shown->name));
}

static void note_gone(struct service *service, struct node_shown *shown, uint64_t version)
{
    memset(shown->digest, 0, sizeof(shown->digest));
    shown->version = service->nodes_version = version;
    list_push_back(&service->nodes_gone, &shown->gone);
    service->nodes_gone_count++;
}

static void note_known(struct service *service, struct node_shown *shown, uint64_t comparison)
{
    shown->seen = comparison;
    if (list_empty(&shown->gone))
        return;
    list_remove(&shown->gone);
    service->nodes_gone_count--;
}

/* Number the nodes that are no more. */
static void number_gone(struct service *service, uint64_t comparison, uint64_t version)
{
    for (struct map_entry *e = strmap_first(&service->nodes_shown); e; e = map_next(e)) {
        struct node_shown *shown = e->value;
        if (shown->seen != comparison && list_empty(&shown->gone))
            note_gone(service, shown, version);
    }
    while (service->nodes_gone_count > GONE_MAX)
        drop_oldest_gone(service);
}

/* Number the nodes that differ from the previous list. False: memory is out. */
static bool number_changes(struct service *service, Muster__Node *const *nodes, size_t count)
{
    uint64_t next = service->nodes_version + 1, comparison = ++service->nodes_comparisons;
    struct buf space;
    bool whole = true, compare = !service->nodes_settled;
    buf_init(&space, WIRE_ARENA_MAX_BYTES);
    for (size_t i = 0; whole && compare && i < count; i++) {
        uint64_t digest[2];
        struct node_shown *shown = shown_of(service, nodes[i]->name);
        whole = shown && digest_of(nodes[i], &space, digest);
        if (whole)
            note_known(service, shown, comparison);
        if (!whole || memcmp(shown->digest, digest, sizeof(digest)) == 0)
            continue;
        memcpy(shown->digest, digest, sizeof(digest));
        shown->version = service->nodes_version = next;
    }
    buf_fini(&space);
    if (whole && compare)
        number_gone(service, comparison, next);
    service->nodes_settled = whole;
    return whole;
}

static size_t only_since(struct service *service, uint64_t since, Muster__Node **nodes,
                         size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct node_shown *shown = strmap_get(&service->nodes_shown, nodes[i]->name);
        if (!shown || shown->version > since)
            nodes[kept++] = nodes[i];
    }
    return kept;
}

/* Names of the nodes that a reader of that list knows and that are no more. NULL: memory is out. */
static char **gone_since(struct service *service, uint64_t since, struct arena *arena,
                         size_t *ret_count)
{
    char **names = arena_pointers(arena, (size_t)service->nodes_gone_count);
    struct node_shown *shown;
    *ret_count = 0;
    list_each(shown, &service->nodes_gone, gone) {
        if (names && shown->version > since)
            names[(*ret_count)++] = (char *)(uintptr_t)shown->name;
    }
    return names;
}

/* True for a version from this life of the coordinator that has existed, and not too long ago. */
static bool is_known(const struct service *service, uint64_t since)
{
    return since >= service->nodes_gone_above && since <= service->nodes_version;
}

void call_list_nodes(struct service *service, struct service_call *call, bool last_chance)
{
    (void)last_chance;
    const struct cluster *cluster = service_cluster(service);
    const Muster__ListNodesRequest *message = (const void *)call->request;
    Muster__ListNodesAnswer answer = MUSTER__LIST_NODES_ANSWER__INIT;
    struct error err = {0};
    struct arena arena;
    arena_init(&arena, WIRE_ARENA_MAX_BYTES);
    answer.nodes = arena_pointers(&arena, (size_t)cluster_nodes_count(cluster));
    bool whole = answer.nodes;
    for (const struct node *node = cluster_first_node(cluster); whole && node;
         node = cluster_next_node(cluster, node)) {
        answer.nodes[answer.n_nodes] = wire_node(&arena, node);
        whole = answer.nodes[answer.n_nodes];
        answer.n_nodes += whole;
    }
    if (whole) {
        wire_uses(cluster, answer.nodes, answer.n_nodes);
        whole = number_changes(service, answer.nodes, answer.n_nodes);
    }
    answer.version = service->nodes_version;
    answer.changes_refused = service_changes_refused(service, &err);
    answer.whole = !is_known(service, message->since);
    if (whole && !answer.whole) {
        answer.n_nodes = only_since(service, message->since, answer.nodes, answer.n_nodes);
        answer.forgotten = gone_since(service, message->since, &arena, &answer.n_forgotten);
        whole = answer.forgotten;
    }
    for (size_t i = 0; whole && i < answer.n_nodes; i++)
        whole = scope_node(call, &arena, answer.nodes[i]);
    service_answer_whole(call, whole, &answer.base);
    arena_fini(&arena);
}
