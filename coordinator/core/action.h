/* Everything the coordinator may ask the world to do. A step appends actions to a list; the driver
 * performs a turn's lists in this order: all STORE and RECORD in one transaction, then the rest in
 * order. If the transaction fails nothing else is performed and the coordinator stops (its state
 * in memory is ahead of the disk): a restart loads what was acknowledged.
 */
#ifndef CORE_ACTION_H
#define CORE_ACTION_H

#include "coordinator/model/cluster.h"

enum action_kind {
    ACTION_STORE_JOB,    /* write job `job` as it is now (once per turn is enough) */
    ACTION_STORE_NODE,   /* write node `node` as it is now */
    ACTION_RECORD,       /* append `record` to the event log */
    ACTION_ANSWER,       /* to `request`: code 0 and the job/node named, or the error */
    ACTION_NODE_CHANGED, /* what should run on `node` changed: answer its Poll */
    ACTION_JOB_CHANGED,  /* answer those who watch `job` */
    ACTION_WAKE_AT,      /* deliver EVENT_TICK at `at_ms` (the earliest asked for counts) */
};

struct record { /* proto Event without its number */
    int64_t wall_ms;
    char kind[32];
    char job[JOB_ID_MAX + 1];
    char node[NODE_NAME_MAX + 1];
    uint64_t generation;
    int world; /* of the job's current generation */
    char from[16], to[16];
    struct reason reason;
};

struct action {
    enum action_kind kind;
    uint64_t request;
    char job[JOB_ID_MAX + 1];
    char node[NODE_NAME_MAX + 1];
    int64_t at_ms;
    struct record *record; /* owned by the list */
    struct error *error;   /* owned by the list; NULL = success */
    bool repeated;         /* ANSWER to a submit whose idempotency key was seen before */
    const char *const
        *prune; /* ANSWER to checkpoint done: NULL-terminated paths, owned by the list */
};

struct actions { /* a growing list; actions_clear frees what the entries own */
    struct action *items;
    int count, capacity;
};

void actions_init(struct actions *actions);
void actions_fini(struct actions *actions);
void actions_clear(struct actions *actions);
struct action *actions_add(struct actions *actions,
                           enum action_kind kind); /* never NULL: aborts on no memory */

/* core/step.h: void coordinator_step(struct cluster *, const struct event *, struct actions *ret);
 */

#endif
