/* The order in which waiting jobs are placed. Pure, except for a scratch number in the tenant.
 *
 *     1. guarantee: jobs that fit into their tenant's guarantee
 *     2. priority
 *     3. fair share: the tenant with the least for its weight, counting the slots it uses now,
 *        those it got in this pass, and its decayed use (tenant.h)
 *     4. arrival
 *
 * Among the jobs of one tenant: priority, then arrival.
 */
#ifndef SCHEDULER_QUEUE_H
#define SCHEDULER_QUEUE_H

#include "coordinator/model/cluster.h"

enum {
    QUEUE_WITHOUT_MAX = 17, /* jobs a what-if may leave out, and the job in question */
};

struct queue_line { /* one tenant with waiting jobs */
    struct tenant *tenant;
    const struct map_entry *at; /* its next job */
    struct job *next;
    int used;    /* now */
    int slots;   /* in use now, or placed in this pass */
    int claimed; /* requested by its earlier jobs, placed or not */
    double use;
    int extra, extra_end; /* its extra jobs that are still to be returned */
};

struct queue {
    struct queue_line *lines;
    int count;
    const struct job **extra; /* added by a what-if: in no line, but returned in order */
    int extra_count, extra_capacity;
    bool sorted; /* `extra` is sorted by tenant, then in line order */
    const struct job *without[QUEUE_WITHOUT_MAX];
    int without_count;
};

void queue_init(struct queue *queue, const struct cluster *cluster, int64_t now_ms);
void queue_fini(struct queue *queue);

/* For what-ifs, before the first queue_next. leave_out: as if the job, or all jobs of the tenant,
 * did not wait, for at most QUEUE_WITHOUT_MAX jobs. add: as if the job waited. release: as if the
 * tenant used `slots` fewer. add_tenant: one tenant at most that the cluster does not know yet. */
void queue_leave_out(struct queue *queue, const struct job *job);
void queue_leave_out_tenant(struct queue *queue, const struct tenant *tenant);
void queue_add(struct queue *queue, const struct job *job);
void queue_release(struct queue *queue, const struct tenant *tenant, int slots);
void queue_add_tenant(struct queue *queue, struct tenant *tenant);

struct job *queue_next(struct queue *queue); /* NULL at the end */

/* Slots of the job's smallest gang, or of `nodes` nodes. */
int queue_slots_of(const struct spec *spec, int nodes);
/* The number of nodes, at most `nodes`, that the tenant's limit leaves for such a job. */
int queue_nodes_allowed(const struct queue *queue, const struct tenant *tenant,
                        const struct spec *spec, int nodes);
/* queue_charge: the tenant got this many slots. queue_unclaim: its job needs none of what it
 * claimed. */
void queue_charge(struct queue *queue, const struct tenant *tenant, int slots);
void queue_unclaim(struct queue *queue, const struct job *job);
/* True if its smallest gang fits into its tenant's guarantee, given what the tenant uses now. */
bool queue_is_guaranteed(const struct tenant *tenant, const struct spec *spec);

#endif
