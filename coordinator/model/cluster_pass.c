#include "coordinator/model/cluster_pass.h"

#include "coordinator/model/cluster_internal.h"
#include "coordinator/model/cluster_walk.h"

void cluster_want_pass(struct cluster *cluster, bool wanted)
{
    cluster->pass_wanted = wanted;
    if (!wanted && cluster->front_due_ms <= cluster->now_ms)
        cluster->front_due_ms = 0;
}

bool cluster_wants_pass(const struct cluster *cluster)
{
    return cluster->pass_wanted || cluster_front_due_ms(cluster) <= cluster->now_ms;
}

bool cluster_front_reasons_due(struct cluster *cluster, int64_t every_ms)
{
    int64_t next_ms = cluster->front_reasons_ms ? cluster->front_reasons_ms + every_ms : 0;
    bool may = next_ms <= cluster->now_ms;
    if (may)
        cluster->front_reasons_ms = cluster->now_ms;
    cluster->front_due_ms = may ? 0 : next_ms;
    return may;
}

int64_t cluster_front_due_ms(const struct cluster *cluster)
{
    return cluster->front_due_ms ? cluster->front_due_ms : INT64_MAX;
}

struct job *cluster_begin_pass(struct cluster *cluster)
{
    struct job *first = cluster_job_from(cluster, cluster->passed_below);
    cluster->passed_below = cluster->next_sequence;
    cluster->passes++;
    return first;
}

uint64_t cluster_passes(const struct cluster *cluster)
{
    return cluster->passes;
}
