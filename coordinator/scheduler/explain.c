#include "coordinator/scheduler/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/reason.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/gang.h"

enum { NAMED_MAX = 3, HELD_TEXT_BYTES = 160 };

struct census { /* number of nodes that pass each filter, after all earlier filters */
    int registered, matching, large, together, there, open, fitting, free;
    const struct pair *unmet;   /* the first constraint that excluded a node */
    const struct node *closest; /* of the matching ones: the one that lacks least */
    double closest_share;
    const struct node *absent[NAMED_MAX]; /* the first large ones that are unavailable */
    int short_cpus, short_memory;         /* of the open ones: those with too little free */
    int slots_held, gpus_lost;            /* of the open ones (node_holds) */
    uint64_t held_for;                    /* the job that such a node is reserved for */
};

/* Slots of all workers of one node. */
static int slots_of(const struct spec *spec)
{
    return spec->workers_per_node * spec->resources.slots;
}

static int64_t cpus_milli_of(const struct spec *spec)
{
    return spec->workers_per_node * (int64_t)spec->resources.cpus_milli;
}

static int64_t memory_bytes_of(const struct spec *spec)
{
    return spec->workers_per_node * spec->resources.memory_bytes;
}

static double fraction_of(int64_t has, int64_t wanted)
{
    return has < wanted ? (double)has / (double)wanted : 1;
}

/* The node's size relative to the request, in its scarcest resource; 1 = large enough. */
static double share_of(const struct node *node, const struct spec *spec)
{
    double slots = fraction_of(node->slots, slots_of(spec));
    double cpus = fraction_of(node->cpus_milli, cpus_milli_of(spec));
    double memory = fraction_of(node->memory_bytes, memory_bytes_of(spec));
    double least = slots < cpus ? slots : cpus;
    return least < memory ? least : memory;
}

static void count_node(const struct view_node *at, const struct request *request,
                       struct census *census)
{
    const struct node *node = at->node;
    const struct pair *unmet = node_unmet_constraint(node, request->spec);
    census->registered++;
    if (unmet && !census->unmet)
        census->unmet = unmet;
    if (unmet)
        return;
    census->matching++;
    double share = share_of(node, request->spec);
    if (!census->closest || census->closest_share < share) {
        census->closest = node;
        census->closest_share = share;
    }
    if (!node_large_enough(node, request->spec))
        return;
    census->large++;
    int absent = census->large - 1 - census->there;
    if (!at->counted && absent < NAMED_MAX)
        census->absent[absent] = node;
    if (!at->counted)
        return;
    census->there++;
    if (!at->open)
        return;
    census->open++;
    census->slots_held += node_slots_held(node);
    census->gpus_lost += node_gpus_lost(node);
    if (at->cpus_milli_free < cpus_milli_of(request->spec))
        census->short_cpus++;
    if (at->memory_bytes_free < memory_bytes_of(request->spec))
        census->short_memory++;
    if (!node_fits_now(at, request->spec, NULL) || node_is_avoided(at, request))
        return;
    census->fitting++;
    bool held = at->held_for && at->held_for != request->sequence;
    if (held && !census->held_for)
        census->held_for = at->held_for;
    if (!held)
        census->free++;
}

static void take_census(struct view *view, const struct request *request, struct census *ret)
{
    int *large = malloc(sizeof(*large) * ((size_t)view->count + 1));
    insist(large);
    int count = 0;
    *ret = (struct census){0};
    for (int i = 0; i < view->count; i++) {
        int before = ret->there;
        count_node(&view->nodes[i], request, ret);
        if (ret->there > before)
            large[count++] = i;
    }
    ret->together = gang_largest_group(view, request, large, count);
    free(large);
}

/* "gpt-kjv, mlp, x and others": jobs that use what the request needs. */
static void name_holders(const struct view *view, const struct request *request, struct buf *out)
{
    struct map seen = {0};
    for (int i = 0; i < view->count && seen.count <= NAMED_MAX; i++) {
        const struct node *node = view->nodes[i].node;
        if (!view->nodes[i].counted || node_unmet_constraint(node, request->spec) ||
            !node_large_enough(node, request->spec))
            continue;
        for (struct map_entry *e = map_first(&node->jobs); e && seen.count <= NAMED_MAX;
             e = map_next(e))
            if (!view_is_absent(view, e->value))
                insist(!map_set(&seen, e->key, e->value, NULL));
    }
    int named = 0;
    char name[REASON_NAME_MAX];
    for (struct map_entry *e = map_first(&seen); e && named < NAMED_MAX; e = map_next(e), named++) {
        const struct job *job = e->value;
        (void)buf_printf(out, "%s%s", named ? ", " : "",
                         reason_name_job(job, job->spec->name, name));
    }
    if ((int)seen.count > named)
        (void)buf_str(out, " and others");
    map_fini(&seen);
}

/* "1 free slot, 2 CPUs and 1.0 GiB of memory": slots always, the others only if a node lacks them.
 */
static void put_needs(const struct spec *spec, const struct census *census, struct buf *out)
{
    char memory[FORMAT_MAX];
    bool cpus = census->short_cpus > 0, bytes = census->short_memory > 0;
    (void)buf_printf(out, "%d free slot%s", slots_of(spec), str_plural(slots_of(spec)));
    if (cpus)
        (void)buf_printf(out, "%s%.3g free CPU%s", bytes ? ", " : " and ",
                         (double)cpus_milli_of(spec) / 1000,
                         cpus_milli_of(spec) == 1000 ? "" : "s");
    if (bytes)
        (void)buf_printf(out, " and %s of free memory",
                         format_bytes((uint64_t)memory_bytes_of(spec), memory));
}

/* GPUs that have no worker, and that no job gets. */
static void name_held(const struct census *census, char ret[HELD_TEXT_BYTES])
{
    int lost = census->gpus_lost, used = census->slots_held - lost, length = 0;
    ret[0] = '\0';
    if (lost)
        length = snprintf(ret, HELD_TEXT_BYTES, "; %d GPU%s cannot be read any more", lost,
                          str_plural(lost));
    if (used > 0)
        (void)snprintf(ret + length, (size_t)(HELD_TEXT_BYTES - length),
                       "; %d GPU%s %s not free, as memory of ended workers is still in use", used,
                       str_plural(used), used == 1 ? "is" : "are");
}

static const char *wait_hint(const struct census *census)
{
    if (census->gpus_lost)
        return "`muster nodes` names the GPUs; one that is lost comes back when its machine is set "
               "right or started again";
    return census->slots_held ? "`muster nodes` names the GPUs; what holds their memory is seen "
                                "there by `nvidia-smi`"
                              : "it starts when enough of these end; a higher priority would put "
                                "it first";
}

static void explain_wait(const struct view *view, const struct request *request,
                         const struct census *census, struct reason *ret)
{
    struct buf holders, needs;
    buf_init(&holders, sizeof(ret->text));
    buf_init(&needs, sizeof(ret->text));
    char held[HELD_TEXT_BYTES];
    name_held(census, held);
    name_holders(view, request, &holders);
    put_needs(request->spec, census, &needs);
    reason_set(ret, REASON_WAITING_FOR_SLOTS,
               "needs %d node%s with %s%s; %d of %d ready node%s %s that%s%s%s", request->nodes_min,
               str_plural(request->nodes_min), buf_cstr(&needs),
               request->nodes_min == 1 ? "" : " each", census->fitting, census->open,
               str_plural(census->open), census->fitting == 1 || census->open == 1 ? "has" : "have",
               holders.size ? "; in use by " : "", buf_cstr(&holders), held);
    reason_hint(ret, "%s", wait_hint(census));
    buf_fini(&holders);
    buf_fini(&needs);
}

static void explain_absence(int min, const struct census *census, struct reason *ret)
{
    struct buf names;
    int absent = census->large - census->there;
    int named = absent < NAMED_MAX ? absent : NAMED_MAX;
    buf_init(&names, sizeof(ret->text));
    for (int i = 0; i < named; i++)
        (void)buf_printf(&names, "%s%s", i ? ", " : "; not there: ", census->absent[i]->name);
    if (absent > named)
        (void)buf_printf(&names, " and %d more", absent - named);
    reason_set(ret, REASON_TOO_FEW_NODES, "needs %d node%s; %d could run it, %d of them %s there%s",
               min, str_plural(min), census->large, census->there,
               census->there == 1 ? "is" : "are", buf_cstr(&names));
    reason_hint(ret, absent ? "bring that node back (or uncordon it), or lower nodes.min"
                            : "add nodes or lower nodes.min");
    buf_fini(&names);
}

/* "2 slots, 1 CPU and 4 GiB of memory"; memory only if requested. */
static void put_size(struct buf *out, int slots, int64_t cpus_milli, int64_t memory_bytes)
{
    char memory[FORMAT_MAX];
    (void)buf_printf(out, "%d slot%s%s%.3g CPU%s", slots, str_plural(slots),
                     memory_bytes ? ", " : " and ", (double)cpus_milli / 1000,
                     cpus_milli == 1000 ? "" : "s");
    if (memory_bytes)
        (void)buf_printf(out, " and %s of memory", format_bytes((uint64_t)memory_bytes, memory));
}

static void explain_size(const struct request *request, const struct census *census,
                         struct reason *ret)
{
    const struct spec *spec = request->spec;
    const struct node *node = census->closest;
    struct buf wanted, has;
    buf_init(&wanted, sizeof(ret->text));
    buf_init(&has, sizeof(ret->text));
    put_size(&wanted, slots_of(spec), cpus_milli_of(spec), memory_bytes_of(spec));
    put_size(&has, node->slots, node->cpus_milli, node->memory_bytes);
    reason_set(ret, REASON_TOO_LARGE, "%d worker%s need%s %s on one node; the closest, %s, has %s",
               spec->workers_per_node, str_plural(spec->workers_per_node),
               spec->workers_per_node == 1 ? "s" : "", buf_cstr(&wanted), node->name,
               buf_cstr(&has));
    reason_hint(ret, "ask for less per worker, for fewer workers per node, or add a larger node");
    buf_fini(&wanted);
    buf_fini(&has);
}

/* One blocker per call, in order; false if there is none of this kind. */
static bool explain_kind(enum reason_kind kind, const struct view *view,
                         const struct request *request, const struct census *census,
                         struct reason *ret)
{
    int min = request->nodes_min;
    if (kind == REASON_NO_NODES && census->registered == 0) {
        reason_set(ret, kind, "no node has registered");
        reason_hint(ret, "start `muster agent` on a node");
    } else if (kind == REASON_NO_NODES && census->there > 0 && census->open == 0) {
        reason_set(ret, kind, "none of the %d node%s that fit%s is ready yet", census->there,
                   str_plural(census->there), census->there == 1 ? "s" : "");
        reason_hint(ret, "`muster nodes` shows what each waits for");
    } else if (kind == REASON_CONSTRAINT_UNMET && census->registered > 0 && census->matching == 0) {
        reason_set(ret, kind, "none of %d node%s carries %s: %s", census->registered,
                   str_plural(census->registered), census->unmet->key, census->unmet->value);
        reason_hint(ret, "`muster nodes -o yaml` shows the labels there are");
    } else if (kind == REASON_TOO_LARGE && census->matching > 0 && census->large == 0) {
        explain_size(request, census, ret);
    } else if (kind == REASON_TOO_FEW_NODES && census->large > 0 && census->there < min) {
        explain_absence(min, census, ret);
    } else if (kind == REASON_TOPOLOGY_UNMET && census->there >= min && census->together < min) {
        reason_set(ret, kind, "needs %d nodes with the same %s; %d is the most that share one", min,
                   request->spec->topology, census->together);
        reason_hint(ret, "label more nodes, lower nodes.min, or drop the topology");
    } else if (kind == REASON_BEHIND && census->fitting >= min && census->free < min &&
               census->held_for) {
        char id[JOB_ID_MAX + 1], name[REASON_NAME_MAX];
        (void)str_printf(id, sizeof(id), "j%llu", (unsigned long long)census->held_for);
        reason_set(ret, kind, "%d node%s %s room, kept for job %s before it", census->fitting,
                   str_plural(census->fitting), census->fitting == 1 ? "has" : "have",
                   reason_name_job(cluster_job(view->cluster, id), id, name));
        reason_hint(ret, "a higher priority would put it first");
    } else if (kind == REASON_WAITING_FOR_SLOTS && census->together >= min &&
               census->fitting < min) {
        explain_wait(view, request, census, ret);
    } else {
        return false;
    }
    return true;
}

int explain_all(struct view *view, const struct request *request, struct reason *ret, int max)
{
    static const enum reason_kind order[] = {REASON_NO_NODES,         REASON_CONSTRAINT_UNMET,
                                             REASON_TOO_LARGE,        REASON_TOO_FEW_NODES,
                                             REASON_TOPOLOGY_UNMET,   REASON_BEHIND,
                                             REASON_WAITING_FOR_SLOTS};
    struct census census;
    int count = 0;
    take_census(view, request, &census);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && count < max; i++)
        count += explain_kind(order[i], view, request, &census, &ret[count]);
    if (count == 0 && max > 0) { /* enough room, but not under one topology value */
        reason_set(&ret[0], REASON_WAITING_FOR_SLOTS,
                   "needs %d nodes with the same %s that have room at once", request->nodes_min,
                   request->spec->topology);
        count = 1;
    }
    return count;
}

void explain_refusal(struct view *view, const struct request *request, struct reason *ret)
{
    (void)explain_all(view, request, ret, 1);
}

bool explain_permanent(struct view *view, const struct request *request, struct reason *ret)
{
    static const enum reason_kind order[] = {REASON_CONSTRAINT_UNMET, REASON_TOO_LARGE,
                                             REASON_TOO_FEW_NODES, REASON_TOPOLOGY_UNMET};
    struct census census;
    if (view->count == 0)
        return false;
    take_census(view, request, &census);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (explain_kind(order[i], view, request, &census, ret))
            return true;
    return false;
}
