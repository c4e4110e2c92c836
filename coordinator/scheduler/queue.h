/* The order in which waiting jobs get a place. Pure, but for a tenant's scratch number.
 *
 *   1. what is owed: jobs that fit into what their tenant is guaranteed
 *   2. priority
 *   3. fair share: the tenant that has least for its weight, counting the slots it uses now, those
 *      this pass gives it, and its decayed use (tenant.h)
 *   4. arrival
 *
 * Among the jobs of one tenant: priority, then arrival.
 */
#ifndef SCHEDULER_QUEUE_H
#define SCHEDULER_QUEUE_H

#include "coordinator/model/cluster.h"

enum {
    QUEUE_WITHOUT_MAX = 17, /* those a what-if may leave out, and the job it is about */
};

struct queue_line { /* of one tenant that has jobs waiting */
    struct tenant *tenant;
    const struct map_entry *at; /* its next job */
    struct job *next;
    int used;    /* now */
    int slots;   /* used now and given in this pass */
    int claimed; /* what those before want, whether they got it or not */
    double use;
    int extra, extra_end; /* its extra ones that have not had their turn */
};

struct queue {
    struct queue_line *lines;
    int count;
    const struct job **extra; /* of a what-if: in no line, come where they belong */
    int extra_count, extra_capacity;
    bool sorted; /* those, by tenant and as they stand in its line */
    const struct job *without[QUEUE_WITHOUT_MAX];
    int without_count;
};

void queue_init(struct queue *queue, const struct cluster *cluster, int64_t now_ms);
void queue_fini(struct queue *queue);

/* For what-ifs, before the first queue_next. As if the job, or all of the tenant's, did not wait;
 * as if this one did; as if the tenant used so many slots less; and a tenant the cluster does not
 * know yet: one at most. At most QUEUE_WITHOUT_MAX jobs are left out. */
void queue_leave_out(struct queue *queue, const struct job *job);
void queue_leave_out_tenant(struct queue *queue, const struct tenant *tenant);
void queue_add(struct queue *queue, const struct job *job);
void queue_release(struct queue *queue, const struct tenant *tenant, int slots);
void queue_add_tenant(struct queue *queue, struct tenant *tenant);

struct job *queue_next(struct queue *queue); /* NULL at the end */

/* Slots of the job's smallest gang; of `nodes` nodes. */
int queue_slots_of(const struct spec *spec, int nodes);
/* How many nodes its tenant's limit leaves it, at most `nodes`. */
int queue_nodes_allowed(const struct queue *queue, const struct tenant *tenant,
                        const struct spec *spec, int nodes);
/* The tenant got so many slots; or its job wants none of what it claimed. */
void queue_given(struct queue *queue, const struct tenant *tenant, int slots);
void queue_unclaim(struct queue *queue, const struct job *job);
/* Its smallest gang fits into what its tenant is guaranteed, with what it uses now. */
bool queue_is_owed(const struct tenant *tenant, const struct spec *spec);

#endif
