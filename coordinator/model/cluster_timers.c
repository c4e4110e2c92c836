#include "coordinator/model/cluster_timers.h"

#include "common/base/assert.h"
#include "coordinator/model/cluster_internal.h"

static void timer_set(struct heap *heap, struct heap_node *timer, int64_t at_ms, uint64_t sequence)
{
    if (heap_contains(timer)) {
        if (timer->key == at_ms)
            return;
        heap_remove(heap, timer);
    }
    if (at_ms == INT64_MAX)
        return;
    timer->key = at_ms;
    timer->sequence = sequence;
    insist(!heap_push(heap, timer));
}

void cluster_wake_job(struct cluster *cluster, struct job *job, int64_t at_ms)
{
    timer_set(&cluster->job_timers, &job->timer, at_ms, job->sequence);
}

/* Nodes have no number: equal times are ordered by the earlier pushes and pops, which are the same
 * in every replay. */
void cluster_wake_node(struct cluster *cluster, struct node *node, int64_t at_ms)
{
    timer_set(&cluster->node_timers, &node->timer, at_ms, 0);
}

static int64_t timer_first_ms(const struct heap *heap)
{
    const struct heap_node *first = heap_peek(heap);
    return first ? first->key : INT64_MAX;
}

int64_t cluster_next_wake(const struct cluster *cluster)
{
    int64_t jobs = timer_first_ms(&cluster->job_timers),
            nodes = timer_first_ms(&cluster->node_timers);
    return jobs < nodes ? jobs : nodes;
}

struct job *cluster_due_job(struct cluster *cluster, int64_t now_ms)
{
    if (timer_first_ms(&cluster->job_timers) > now_ms)
        return NULL;
    return heap_entry(heap_pop(&cluster->job_timers), struct job, timer);
}

struct node *cluster_due_node(struct cluster *cluster, int64_t now_ms)
{
    if (timer_first_ms(&cluster->node_timers) > now_ms)
        return NULL;
    return heap_entry(heap_pop(&cluster->node_timers), struct node, timer);
}
