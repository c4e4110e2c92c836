/* Places gangs: a view of the nodes, and one request after another in queue order, each placed
 * whole or not at all. Pure arithmetic on the view; core turns placements into workers.
 *
 *     view_init         the free resources now
 *     scheduler_place   filter (constraints, size, state) -> gang (all or none, near each other,
 *                       tightest first) -> removed from the view; or a typed reason
 *     reserve.h         when and where a job that must wait will start; later jobs do not delay it
 *     queue.h           the order: guarantee, priority, fair share, arrival
 *     pass.h            all of these together, for core, for `why` and for what-if
 *     preempt.h         victims
 *
 * Every order is decided: nodes by rack, free slots, then name; topology groups by size, then
 * value.
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "coordinator/model/cluster.h"

enum {
    START_SLACK_MS = 60000, /* at most, from placed to running: its runtime counts from then */
    END_SLACK_MS = 40000,   /* from the end of its runtime to free slots: grace and slack */
};

struct view_node {
    const struct node *node;
    int slots_free, cpus_milli_free;
    int64_t memory_bytes_free;
    uint64_t slot_map[NODE_SLOTS_MAX / 64];
    bool open;          /* may get new workers now */
    bool counted;       /* exists or will soon: not lost, cordoned or draining */
    uint64_t held_for;  /* sequence of the waiting job it is reserved for, 0 = none */
    int64_t held_at_ms; /* start of that job: jobs that end before it may use the node. INT64_MAX:
                         * unknown, so no job may */
    int rack;           /* number of its rack in this view; 0 = it has no rack label */
    int group;          /* the same for the value of `topology` */
    bool roomy;         /* listed in the view's `roomy` */
};

struct absence { /* jobs that a what-if removes: their resources and requests do not count */
    const struct job *const *jobs;
    const struct tenant *const *tenants; /* with all of their jobs */
    int jobs_count, tenants_count;
    const struct map *displaced; /* more of them, by sequence; NULL = none */
    const struct map *ended;     /* the same: jobs that a trial ends */
};

struct view {
    const struct cluster *cluster;
    const struct absence *absent; /* NULL = none */
    struct view_node *nodes;      /* by name */
    int count;
    int64_t now_ms;
    int *roomy; /* indices of the nodes that are open and not full, each once; shrinks lazily */
    int roomy_count;
    int racks;            /* 0 = not numbered yet */
    const char *topology; /* the label whose groups are numbered; NULL = none yet */
    int groups;
    int available; /* nodes that are open, not full, and not reserved for an unknown time; 0 ends a
                    * pass */
};

struct request {
    const struct spec *spec;
    int nodes_min, nodes_max;
    int64_t release_at_ms;   /* when it gives its nodes back; 0 or INT64_MAX = unknown */
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

void view_init(struct view *view, const struct cluster *cluster, int64_t now_ms);
void view_fini(struct view *view);
/* Add these nodes, ready and empty, before anything is placed. They are borrowed. */
void view_add_nodes(struct view *view, struct node *const *nodes, int count);
bool view_is_absent(const struct view *view, const struct job *job);
bool view_is_available(const struct view_node *node); /* open, not full, not reserved for an unknown
                                                       * time */
struct view_node *view_find(const struct view *view, const char *name); /* NULL = none */

/* As if the worker had ended (view_release) or the node were unusable (view_drain). */
void view_release(struct view *view, const struct job *job, const struct worker *worker);
/* The same for a worker of the job on this node, by its first slot; and the reverse. */
void view_release_slots(struct view *view, struct view_node *node, const struct job *job, int slot);
void view_occupy_slots(struct view *view, struct view_node *node, const struct job *job, int slot);
void view_drain(struct view *view, struct view_node *node);
/* Reserve the node for job `sequence`, which starts at `at_ms`. */
void view_hold(struct view *view, struct view_node *node, uint64_t sequence, int64_t at_ms);

/* Place as many workers as fit on between nodes_min and nodes_max nodes. True: ret_placement is
 * filled (placement_fini) and removed from the view. False: ret_reason (may be NULL) has the
 * blocker, and the view is unchanged. */
bool scheduler_place(struct view *view, const struct request *request,
                     struct placement *ret_placement, struct reason *ret_reason);
/* True if it would be placed. For nodes that change one by one: fit.h. */
bool scheduler_fits(struct view *view, const struct request *request);
/* True if the request could use the node in its present state in the view. */
bool scheduler_could_take(const struct view_node *node, const struct request *request);
void placement_fini(struct placement *placement);
/* Move all of `more` into `placement`, sorted by name; `more` is then empty. */
void placement_join(struct placement *placement, struct placement *more);

/* The latest time at which a job gives its nodes back, if it starts now or has started. INT64_MAX =
 * no max_runtime. */
int64_t scheduler_release_at(const struct job *job, int64_t now_ms);

/* 0 if the job could ever run on the registered nodes, empty and all back, within its tenant's
 * limit. An empty cluster refuses nothing. E_FAILED_PRECONDITION names the field; the hint says
 * what would fit. */
int scheduler_possible(const struct cluster *cluster, const struct spec *spec, struct error *err);

/* The same with more nodes. */
int scheduler_possible_with(const struct cluster *cluster, const struct spec *spec,
                            struct node *const *more, int count, struct error *err);

/* True if both ask for the same, so that a refusal of one is a refusal of the other. */
bool scheduler_same_request(const struct spec *a, const struct spec *b);

#endif
