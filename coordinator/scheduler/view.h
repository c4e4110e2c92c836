/* The nodes in one pass: what is free, what is reserved, and the changes of a what-if. Pure. */
#ifndef SCHEDULER_VIEW_H
#define SCHEDULER_VIEW_H

#include "coordinator/model/cluster.h"

struct view_node {
    const struct node *node;
    int slots_free; /* of those that are not held (node_holds) */
    int cpus_milli_free;
    int64_t memory_bytes_free;
    uint64_t slot_map[NODE_SLOTS_MAX / 64];
    bool open;          /* may get new workers now */
    bool counted;       /* exists or will soon: not lost, cordoned or draining */
    uint64_t held_for;  /* sequence of the waiting job it is reserved for, 0 = none */
    int64_t held_at_ms; /* start of that job: jobs that end before it may use the node. INT64_MAX:
                         * unknown, so no job may */
    int rack;           /* number of its rack in this view; 0 = it has no rack label */
    int group;          /* the same for the value of `topology` */
    bool is_unfilled;   /* listed in the view's `unfilled` */
};

struct absence { /* jobs that a what-if removes: their resources and requests do not count */
    const struct job *const *jobs;
    const struct tenant *const *tenants; /* with all of their jobs */
    int jobs_count, tenants_count;
    const struct map *displaced; /* more of them, by sequence; NULL = none */
    const struct map *ended;     /* the same: jobs that a dry_run ends */
};

struct view {
    const struct cluster *cluster;
    const struct absence *absent; /* NULL = none */
    struct view_node *nodes;      /* by name */
    int count;
    int64_t now_ms;
    int *unfilled; /* indices of the nodes that are open and not full, each once; shrinks lazily */
    int unfilled_count;
    int racks;            /* 0 = not numbered yet */
    const char *topology; /* the label that numbers the groups; NULL = none yet */
    int groups;
    int available; /* nodes that are open, not full, and not reserved for an unknown time; 0 ends a
                    * pass */
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

#endif
