/* A group: one membership of a job's gang, by rank. Part of the cluster (cluster.h). */
#ifndef MODEL_GROUP_H
#define MODEL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/name.h"
#include "coordinator/model/worker.h"

/* One membership: ranks 0..world-1 are workers[members[rank]] by uid. */
struct group {
    uint64_t generation; /* 0 = no group */
    int world;
    uint64_t *members; /* uid by rank, `world` of them, owned by the group */
    bool published;    /* all joined, or unaware and started: the gang is complete and runs */
    bool joined;       /* all joined: endpoints are known, membership is published */
    bool open;         /* forming: survivors are asked to leave the current group */
    bool broken;       /* lost a member: it may not commit checkpoints any more */
    char master_node[NAME_LENGTH_MAX + 1];
    int master_port;
    int64_t since_ms;
    struct group_place *places; /* by rank; derived, not stored */
    int nodes;                  /* derived */
};

struct group_place { /* place of a rank among the nodes of its group */
    int node_rank;   /* nodes in order of their lowest rank */
    int local_world; /* members on that node */
};

int group_rank_of(const struct group *group, uint64_t uid); /* -1 = not a member */
/* The same for a worker, which usually keeps its present rank: that is looked at first. */
int group_rank_of_worker(const struct group *group, const struct worker *worker);

void group_fini(struct group *group);

#endif
