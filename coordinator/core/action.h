/* All that the coordinator may ask of the world. A step appends actions to a list. The driver
 * performs a turn's lists in this order: all STORE and RECORD in one transaction, then the rest in
 * order. If the transaction fails, nothing else is performed and the cluster is loaded from the
 * store again, because memory is ahead of the disk. */
#ifndef CORE_ACTION_H
#define CORE_ACTION_H

#include "coordinator/model/cluster.h"

enum action_kind {
    ACTION_STORE_JOB,    /* write job `job` in its present state (once per turn is enough) */
    ACTION_STORE_NODE,   /* write node `node` in its present state */
    ACTION_FORGET_NODE,  /* delete node `node`; its agent proved `key`; the last of its actions */
    ACTION_RECORD,       /* append `record` to the event log */
    ACTION_ANSWER,       /* answer `request`: code 0 and the job or node, or the error */
    ACTION_NODE_CHANGED, /* the assignments of `node` changed: answer its Poll */
    ACTION_JOB_CHANGED,  /* answer the requests that watch `job` */
    ACTION_WAKE_AT,      /* deliver EVENT_TICK at `at_ms` (the earliest one counts) */
};

struct record { /* proto Event without its number */
    int64_t wall_ms;
    char kind[32];
    char job[JOB_ID_MAX + 1];
    char node[NAME_LENGTH_MAX + 1];
    uint64_t generation;
    int world; /* of the job's current generation */
    char from[16], to[16];
    struct reason reason;
};

struct action {
    enum action_kind kind;
    uint64_t request;
    char job[JOB_ID_MAX + 1];
    char node[NAME_LENGTH_MAX + 1];
    char key[NODE_KEY_MAX + 1];
    int64_t at_ms;
    struct record *record; /* owned by the list */
    struct error *error;   /* owned by the list; NULL = success */
    bool repeated;         /* ANSWER to a submit with an idempotency key seen before */
    const char *const
        *prune; /* ANSWER to checkpoint done: NULL-terminated paths, owned by the list */
};

struct actions { /* a growing list; actions_clear frees the entries' memory */
    struct action *items;
    int count, capacity;
};

void actions_init(struct actions *actions);
void actions_fini(struct actions *actions);
void actions_clear(struct actions *actions);
struct action *actions_add(struct actions *actions,
                           enum action_kind kind); /* never NULL: aborts if memory is out */

#endif
