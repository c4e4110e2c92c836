#include "coordinator/scheduler/reserve.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/query.h"
#include "coordinator/scheduler/filter.h"
#include "coordinator/scheduler/scheduler.h"

struct option { /* a node the job could use */
    int index;
    int64_t ready_ms;
    const char *value; /* of its topology */
};

static int64_t earliest_end(const int64_t *ends, int count)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < count; i++)
        if (ends[i] < best)
            best = ends[i];
    return best;
}

struct future { /* of one node */
    struct view_node node;
    const struct part *parts, *end;
};

static void release_parts(struct future *then, const struct job *job, bool leaving)
{
    const struct resources *each = &job->spec->resources;
    for (const struct part *part = then->parts; part < then->end; part++) {
        if (part->job != job || part->leaving != leaving)
            continue;
        for (int slot = part->slot; slot < part->slot + each->slots; slot++)
            then->node.slot_map[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
        then->node.slots_free += each->slots;
        then->node.cpus_milli_free += each->cpus_milli;
        then->node.memory_bytes_free += each->memory_bytes;
    }
}

/* Free the workers on nodes being given back; true if there are any. */
static bool release_leaving(struct future *then, const struct job *const *jobs, int count)
{
    int before = then->node.slots_free;
    for (int i = 0; i < count; i++)
        if (jobs[i]->beneficiary[0])
            release_parts(then, jobs[i], true);
    return then->node.slots_free > before;
}

/* When workers_per_node of its workers fit here, as jobs end one after another. */
static int64_t ready_at(const struct view *view, const struct parts *parts, int index,
                        const struct spec *spec)
{
    enum { JOBS_MAX = NODE_SLOTS_MAX };
    const struct job *jobs[JOBS_MAX];
    int64_t ends[JOBS_MAX], at_ms = view->now_ms;
    const struct view_node *node = &view->nodes[index];
    struct future then = {.node = *node,
                          .parts = &parts->all[parts->first[index]],
                          .end = &parts->all[parts->first[index + 1]]};
    int count = 0;
    if (!node->open)
        return INT64_MAX;
    for (struct map_entry *e = map_first(&node->node->jobs); e && count < JOBS_MAX;
         e = map_next(e)) {
        if (view_is_absent(view, e->value))
            continue;
        jobs[count] = e->value;
        ends[count] = scheduler_release_at(e->value, view->now_ms);
        count++;
    }
    if (!node_fits_now(&then.node, spec, NULL) && release_leaving(&then, jobs, count))
        at_ms += END_SLACK_MS;
    while (!node_fits_now(&then.node, spec, NULL)) {
        int64_t next = earliest_end(ends, count);
        if (next == INT64_MAX)
            return INT64_MAX;
        at_ms = next > at_ms ? next : at_ms;
        for (int i = 0; i < count; i++) {
            if (ends[i] != next)
                continue;
            ends[i] = INT64_MAX;
            release_parts(&then, jobs[i], false);
        }
    }
    return at_ms;
}

static int compare_options(const void *a, const void *b)
{
    const struct option *x = a, *y = b;
    int order = x->value && y->value ? strcmp(x->value, y->value) : 0;
    if (order)
        return order;
    if (x->ready_ms != y->ready_ms)
        return x->ready_ms < y->ready_ms ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* For how long slots are held is not known: nothing is kept for a job that needs them. */
static bool could_use(const struct view_node *node, const struct spec *spec)
{
    int free = node->node->slots - node_slots_held(node->node);
    return node->counted && spec->workers_per_node * spec->resources.slots <= free &&
           !node_unmet_constraint(node->node, spec) && node_large_enough(node->node, spec) &&
           (!spec->topology[0] || node_label(node->node, spec->topology));
}

static int find_options(const struct view *view, const struct parts *parts, const struct spec *spec,
                        struct option *ret)
{
    int count = 0;
    for (int i = 0; i < view->count; i++) {
        const struct view_node *node = &view->nodes[i];
        if (!could_use(node, spec))
            continue;
        ret[count++] = (struct option){
            .index = i,
            .ready_ms = node->held_for ? INT64_MAX : ready_at(view, parts, i, spec),
            .value = spec->topology[0] ? node_label(node->node, spec->topology) : NULL};
    }
    qsort(ret, (size_t)count, sizeof(*ret), compare_options);
    return count;
}

/* The run of one topology value in which `least` nodes are ready first. */
static int64_t best_run(const struct option *options, int count, int least, int *ret_start)
{
    int64_t best = 0;
    for (int start = 0, end; start < count; start = end) {
        end = start + 1;
        while (end < count &&
               (!options[start].value || strcmp(options[start].value, options[end].value) == 0))
            end++;
        if (end - start < least)
            continue;
        int64_t at_ms = options[start + least - 1].ready_ms;
        if (best == 0 || at_ms < best) {
            best = at_ms;
            *ret_start = start;
        }
    }
    return best;
}

int64_t scheduler_reserve(struct view *view, const struct parts *parts, const struct job *job,
                          const struct request *request)
{
    struct option *options = calloc((size_t)view->count + 1, sizeof(*options));
    int start = 0;
    insist(options);
    int count = find_options(view, parts, request->spec, options);
    int64_t at_ms = best_run(options, count, request->nodes_min, &start);
    for (int i = 0; i < count && at_ms > 0; i++) {
        struct view_node *node = &view->nodes[options[i].index];
        bool chosen = at_ms == INT64_MAX || (i >= start && i < start + request->nodes_min);
        if (chosen && !node->held_for)
            view_hold(view, node, job->sequence, at_ms);
    }
    free(options);
    return at_ms;
}
