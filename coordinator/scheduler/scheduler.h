/* Who runs where: a view of the nodes and one request after another in the order of the queue, each
 * placed whole or not at all. Pure arithmetic on the view; core turns placements into workers.
 *
 *   view_init      what is free now
 *   scheduler_place  filter (constraints, size, state) -> score (tightest first) -> gang (all or
 *                  none, topology) -> taken off the view; or a typed reason why not
 *   scheduler_hold what a job that must wait could use is kept from those behind it
 *
 * Every order is decided: nodes by free slots, then name; topology groups by size, then value.
 * A pass costs O(nodes) per request that differs from those it refused before (core remembers).
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "coordinator/model/cluster.h"

struct view_node {
    const struct node *node;
    int slots_free, cpus_milli_free;
    int64_t memory_bytes_free;
    uint64_t slot_map[NODE_SLOTS_MAX / 64];
    bool open;         /* may get new workers now */
    bool counted;      /* is or will soon be there: not lost, cordoned or draining */
    uint64_t held_for; /* sequence of the waiting job it is kept for, 0 = none */
};

struct view {
    const struct cluster *cluster;
    struct view_node *nodes; /* by name */
    int count;
    int available; /* nodes that are open, not held and not full: 0 ends a pass */
};

struct request {
    const struct spec *spec;
    int nodes_min, nodes_max;
    const struct job *avoid; /* nodes with a living worker of this job are not taken; may be NULL */
    const struct group *avoid_group; /* of that job: nor are nodes of its members, dead or alive */
    const char *together; /* growing with a topology: the value its nodes share; NULL = any */
};

struct placed_node {
    char name[NODE_NAME_MAX + 1];
    int slots[SPEC_WORKERS_PER_NODE_MAX]; /* first slot of each worker */
};

struct placement {             /* zeroed memory is an empty one */
    struct placed_node *nodes; /* by name */
    int count;
};

void view_init(struct view *view, const struct cluster *cluster);
void view_fini(struct view *view);

/* Place between nodes_min and nodes_max nodes' worth of workers, as many as fit. True:
 * ret_placement is filled (placement_fini) and taken off the view. False: ret_reason says what is
 * missing; the view is as it was. */
bool scheduler_place(struct view *view, const struct request *request,
                     struct placement *ret_placement, struct reason *ret_reason);
void placement_fini(struct placement *placement);

/* Keep what `job` could use from all that come after it, if it could run on the nodes that are
 * registered; otherwise nothing is kept. */
void scheduler_hold(struct view *view, const struct job *job);

/* Could it ever run on the registered nodes, empty and all back? An empty cluster refuses nothing.
 * E_FAILED_PRECONDITION with the field and what would fit as the hint. */
int scheduler_possible(const struct cluster *cluster, const struct spec *spec, struct error *err);

/* True if the two ask for the same, so that what was refused to one is refused to the other. */
bool scheduler_same_request(const struct spec *a, const struct spec *b);

#endif
