/* A job's request to the scheduler, and the placement that answers it. Pure. */
#ifndef SCHEDULER_REQUEST_H
#define SCHEDULER_REQUEST_H

#include "coordinator/model/cluster.h"

struct placement;

struct request {
    const struct spec *spec;
    int nodes_min, nodes_max;
    int64_t release_at_ms;   /* when it releases its nodes; 0 or INT64_MAX = unknown */
    uint64_t sequence;       /* of the requesting job, which may use its own reservation */
    bool least;              /* use only nodes_min, but where nodes_max would be near each other */
    const struct job *avoid; /* exclude nodes with a living worker of this job; may be NULL */
    const struct group *avoid_group;      /* of that job: exclude also nodes of its members, dead or
                                      * alive */
    const struct placement *avoid_placed; /* exclude these too; may be NULL */
    const char *together; /* when growing with a topology: the value its nodes share; NULL = any */
};

struct placed_node {
    char name[NAME_LENGTH_MAX + 1];
    int slots[SPEC_WORKERS_PER_NODE_MAX]; /* first slot of each worker */
};

struct placement {             /* zeroed memory is an empty placement */
    struct placed_node *nodes; /* by name */
    int count;
};

void placement_fini(struct placement *placement);
/* Move all of `more` into `placement`, sorted by name; `more` is then empty. */
void placement_join(struct placement *placement, struct placement *more);

/* True if both ask for the same, so that a refusal of one is a refusal of the other. */
bool request_is_same(const struct spec *a, const struct spec *b);

#endif
