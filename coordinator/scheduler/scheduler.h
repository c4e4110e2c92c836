/* Who runs where: a view of the nodes and one request after another in the order of the queue, each
 * placed whole or not at all. Pure arithmetic on the view; core turns placements into workers.
 *
 *   view_init         what is free now
 *   scheduler_place   filter (constraints, size, state) -> gang (all or none, near each other,
 *                     tightest first) -> taken off the view; or a typed reason why not
 *   reserve.h         when and where a job that must wait will start; nobody delays that
 *   queue.h           the order: what is owed, priority, fair share, arrival
 *   pass.h            all of these together, for core, for `why` and for what-if
 *   preempt.h         who gives way
 *
 * Every order is decided: nodes by rack, free slots, then name; topology groups by size, then
 * value.
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "coordinator/model/cluster.h"

enum {
    START_SLACK_MS = 60000, /* from placed to running, at most: its runtime counts from then */
    END_SLACK_MS = 40000,   /* from the end of its runtime until its slots are free: grace, slack */
};

struct view_node {
    const struct node *node;
    int slots_free, cpus_milli_free;
    int64_t memory_bytes_free;
    uint64_t slot_map[NODE_SLOTS_MAX / 64];
    bool open;          /* may get new workers now */
    bool counted;       /* is or will soon be there: not lost, cordoned or draining */
    uint64_t held_for;  /* sequence of the waiting job it is kept for, 0 = none */
    int64_t held_at_ms; /* it is kept for then: who is gone before may use it; INT64_MAX = no time
                         * is known, so nobody may */
    int rack;           /* number of its rack in this view; 0 = it tells none */
    int group;          /* the same for the value of `topology` */
    bool roomy;         /* among the view's roomy ones */
};

struct absence { /* jobs that a what-if takes away: nothing they hold or want counts */
    const struct job *const *jobs;
    const struct tenant *const *tenants; /* with all of their jobs */
    int jobs_count, tenants_count;
    const struct map *displaced; /* more of them, by sequence; NULL = none */
    const struct map *ended;     /* the same, those a trial ends */
};

struct view {
    const struct cluster *cluster;
    const struct absence *absent; /* NULL = nobody */
    struct view_node *nodes;      /* by name */
    int count;
    int64_t now_ms;
    int *roomy; /* indices of the nodes that are open and not full, each once; shrinks lazily */
    int roomy_count;
    int racks;            /* 0 = not numbered yet */
    const char *topology; /* the label the groups are numbered for; NULL = none yet */
    int groups;
    int available; /* nodes that are open, not full, and not kept without a time: 0 ends a pass */
};

struct request {
    const struct spec *spec;
    int nodes_min, nodes_max;
    int64_t release_at_ms; /* when it will have given its nodes back; 0 or INT64_MAX = unknown */
    uint64_t sequence;     /* of the job that asks: what is kept for it is not kept from it */
    bool least; /* take nodes_min only, though where nodes_max would be near each other */
    const struct job *avoid; /* nodes with a living worker of this job are not taken; may be NULL */
    const struct group *avoid_group; /* of that job: nor are nodes of its members, dead or alive */
    const struct placement *avoid_placed; /* nor are these; may be NULL */
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

void view_init(struct view *view, const struct cluster *cluster, int64_t now_ms);
void view_fini(struct view *view);
/* As if these were there too, ready and empty; before anything is placed. They are borrowed. */
void view_add_nodes(struct view *view, struct node *const *nodes, int count);
bool view_is_absent(const struct view *view, const struct job *job);
bool view_is_available(const struct view_node *node); /* open, not full, not kept without a time */
struct view_node *view_find(const struct view *view, const char *name); /* NULL = none */

/* As if the worker had ended, or the node were not to be used. */
void view_release(struct view *view, const struct job *job, const struct worker *worker);
/* The same of a worker of the job on this node, by its first slot; and the way back. */
void view_release_slots(struct view *view, struct view_node *node, const struct job *job, int slot);
void view_occupy_slots(struct view *view, struct view_node *node, const struct job *job, int slot);
void view_drain(struct view *view, struct view_node *node);
/* Kept for job `sequence` from `at_ms`. */
void view_hold(struct view *view, struct view_node *node, uint64_t sequence, int64_t at_ms);

/* Place between nodes_min and nodes_max nodes' worth of workers, as many as fit. True:
 * ret_placement is filled (placement_fini) and taken off the view. False: ret_reason (may be NULL)
 * says what is missing; the view is as it was. */
bool scheduler_place(struct view *view, const struct request *request,
                     struct placement *ret_placement, struct reason *ret_reason);
/* It would be placed. Where nodes change one by one: fit.h. */
bool scheduler_fits(struct view *view, const struct request *request);
/* The node, as it is in the view, could be one of those it is placed on. */
bool scheduler_could_take(const struct view_node *node, const struct request *request);
void placement_fini(struct placement *placement);
/* All of `more` into `placement`, by name; `more` is empty then. */
void placement_join(struct placement *placement, struct placement *more);

/* When a job will have given its nodes back at the latest, started now if it has not yet; INT64_MAX
 * = it has no max_runtime. */
int64_t scheduler_release_at(const struct job *job, int64_t now_ms);

/* Could it ever run on the registered nodes, empty and all back, within its tenant's limit? An
 * empty cluster refuses nothing. E_FAILED_PRECONDITION with the field and what would fit as the
 * hint. */
int scheduler_possible(const struct cluster *cluster, const struct spec *spec, struct error *err);

/* The same with more nodes. */
int scheduler_possible_with(const struct cluster *cluster, const struct spec *spec,
                            struct node *const *more, int count, struct error *err);

/* True if the two ask for the same, so that what was refused to one is refused to the other. */
bool scheduler_same_request(const struct spec *a, const struct spec *b);

#endif
