#include "coordinator/scheduler/queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "coordinator/model/tenant.h"

int queue_slots_of(const struct spec *spec, int nodes)
{
    return spec_world(spec, nodes) * spec->resources.slots;
}

static void settle_line(struct queue *queue, struct queue_line *line)
{
    for (; line->at; line->at = map_next(line->at)) {
        bool left_out = false;
        for (int i = 0; i < queue->without_count; i++)
            left_out |= queue->without[i] == line->at->value;
        if (!left_out)
            break;
    }
    line->next = line->at ? line->at->value : NULL;
}

void queue_init(struct queue *queue, const struct cluster *cluster, int64_t now_ms)
{
    int count = 0;
    for (struct tenant *t = cluster_first_tenant(cluster); t; t = cluster_next_tenant(cluster, t))
        count++;
    queue->lines = calloc((size_t)count + 1, sizeof(*queue->lines));
    insist(queue->lines);
    queue->count = 0;
    for (struct tenant *t = cluster_first_tenant(cluster); t; t = cluster_next_tenant(cluster, t)) {
        struct queue_line *line = &queue->lines[queue->count];
        *line = (struct queue_line){.tenant = t,
                                    .at = map_first(&t->waiting),
                                    .used = t->slots_used,
                                    .slots = t->slots_used,
                                    .claimed = t->slots_used,
                                    .use = tenant_use(t, now_ms)};
        t->number = queue->count++;
        settle_line(queue, line);
    }
}

void queue_leave_out(struct queue *queue, const struct job *job)
{
    insist(queue->without_count < QUEUE_WITHOUT_MAX);
    queue->without[queue->without_count++] = job;
    settle_line(queue, &queue->lines[job->tenant->number]);
}

void queue_leave_out_tenant(struct queue *queue, const struct tenant *tenant)
{
    queue->lines[tenant->number].at = NULL;
    queue->lines[tenant->number].next = NULL;
}

void queue_add(struct queue *queue, const struct job *job)
{
    queue->extra = array_reserve(queue->extra, queue->extra_count, &queue->extra_capacity,
                                 sizeof(const struct job *));
    queue->extra[queue->extra_count++] = job;
    queue->sorted = false;
}

void queue_release(struct queue *queue, const struct tenant *tenant, int slots)
{
    struct queue_line *line = &queue->lines[tenant->number];
    line->used -= slots;
    line->slots -= slots;
    line->claimed -= slots;
}

void queue_add_tenant(struct queue *queue, struct tenant *tenant)
{
    queue->lines[queue->count] = (struct queue_line){.tenant = tenant}; /* queue_init allocated it
                                                                         */
    tenant->number = queue->count++;
}

void queue_fini(struct queue *queue)
{
    free(queue->lines);
    free(queue->extra);
    *queue = (struct queue){0};
}

static bool is_guaranteed(const struct queue_line *line, const struct job *job)
{
    return line->claimed + queue_slots_of(job->spec, job->spec->nodes_min) <=
           line->tenant->guaranteed_slots;
}

static double share_of(const struct queue_line *line)
{
    return (line->claimed + line->use) / line->tenant->weight;
}

static bool goes_before(const struct queue *queue, const struct job *a, const struct job *b)
{
    const struct queue_line *x = &queue->lines[a->tenant->number];
    const struct queue_line *y = &queue->lines[b->tenant->number];
    bool guaranteed_x = is_guaranteed(x, a), guaranteed_y = is_guaranteed(y, b);
    if (guaranteed_x != guaranteed_y)
        return guaranteed_x;
    if (a->spec->priority != b->spec->priority)
        return a->spec->priority > b->spec->priority;
    if (x != y && (share_of(x) < share_of(y) || share_of(x) > share_of(y)))
        return share_of(x) < share_of(y);
    return a->sequence < b->sequence;
}

/* Order of the jobs of one tenant. */
static bool is_before_in_line(const struct job *a, const struct job *b)
{
    if (a->spec->priority != b->spec->priority)
        return a->spec->priority > b->spec->priority;
    return a->sequence < b->sequence;
}

static int compare_by_line(const void *a, const void *b)
{
    const struct job *x = *(const struct job *const *)a, *y = *(const struct job *const *)b;
    if (x->tenant != y->tenant)
        return x->tenant->number < y->tenant->number ? -1 : 1;
    return is_before_in_line(x, y) ? -1 : is_before_in_line(y, x);
}

static void sort_extra(struct queue *queue)
{
    if (queue->extra_count > 1)
        qsort(queue->extra, (size_t)queue->extra_count, sizeof(const struct job *),
              compare_by_line);
    for (int i = 0; i < queue->count; i++)
        queue->lines[i].extra = queue->lines[i].extra_end = 0;
    for (int i = 0; i < queue->extra_count; i++) {
        struct queue_line *line = &queue->lines[queue->extra[i]->tenant->number];
        if (line->extra_end == 0)
            line->extra = i;
        line->extra_end = i + 1;
    }
    queue->sorted = true;
}

/* The first of a tenant's line, and whether it is an extra one. */
static const struct job *head_of(const struct queue *queue, const struct queue_line *line,
                                 bool *ret_extra)
{
    const struct job *extra = line->extra < line->extra_end ? queue->extra[line->extra] : NULL;
    *ret_extra = extra && (!line->next || is_before_in_line(extra, line->next));
    return *ret_extra ? extra : line->next;
}

struct job *queue_next(struct queue *queue)
{
    const struct job *best = NULL;
    bool extra = false, its_extra;
    if (!queue->sorted)
        sort_extra(queue);
    for (int i = 0; i < queue->count; i++) {
        const struct job *head = head_of(queue, &queue->lines[i], &its_extra);
        if (!head || (best && !goes_before(queue, head, best)))
            continue;
        best = head;
        extra = its_extra;
    }
    if (!best)
        return NULL;
    struct queue_line *line = &queue->lines[best->tenant->number];
    line->claimed += queue_slots_of(best->spec, best->spec->nodes_min);
    if (extra) {
        line->extra++;
    } else {
        line->at = map_next(line->at);
        settle_line(queue, line);
    }
    return (struct job *)(uintptr_t)best;
}

int queue_nodes_allowed(const struct queue *queue, const struct tenant *tenant,
                        const struct spec *spec, int nodes)
{
    if (!tenant->limit_slots)
        return nodes;
    int left = tenant->limit_slots - queue->lines[tenant->number].slots;
    int allowed = left > 0 ? left / queue_slots_of(spec, 1) : 0;
    return allowed < nodes ? allowed : nodes;
}

void queue_charge(struct queue *queue, const struct tenant *tenant, int slots)
{
    queue->lines[tenant->number].slots += slots;
}

void queue_unclaim(struct queue *queue, const struct job *job)
{
    queue->lines[job->tenant->number].claimed -= queue_slots_of(job->spec, job->spec->nodes_min);
}

bool queue_is_guaranteed(const struct tenant *tenant, const struct spec *spec)
{
    return tenant->slots_used + queue_slots_of(spec, spec->nodes_min) <= tenant->guaranteed_slots;
}
