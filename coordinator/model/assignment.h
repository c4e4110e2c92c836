/* The desired state of a node, derived from the workers placed on it and their groups. */
#ifndef MODEL_ASSIGNMENT_H
#define MODEL_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/model/cluster.h"

/* A worker that a node should run or still stop. */
struct assignment {
    const struct job *job;
    const struct worker *worker;
    const struct group *group; /* its group now: forming once that is open to it; never NULL, but
                                * generation 0 for a stopping worker without a group */
    uint64_t generation;       /* its generation; never falls for a worker */
    int rank, world, local_rank, local_world, node_rank, node_count;
    bool stop, reform;
    bool complete;  /* with reform: all ranks it leaves are present, so the step in progress will
                     * complete */
    bool published; /* all members joined `group`: membership is published */
};
/* Calls fn for each, in order of (job sequence, uid). */
typedef void (*assignment_fn)(void *arg, const struct assignment *assignment);
void cluster_assignments(const struct cluster *cluster, const char *node_name, assignment_fn fn,
                         void *arg);

#endif
