/* A node: what it has, what its agent reports, what is placed on it. Part of the cluster
 * (cluster.h).
 */
#ifndef MODEL_NODE_H
#define MODEL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/name.h"
#include "common/base/token.h"
#include "coordinator/model/gpu.h"
#include "coordinator/model/reason.h"
#include "coordinator/model/spec.h"
#include "coordinator/model/state.h"

enum {
    NODE_KEY_MAX = TOKEN_PIN_LENGTH,
    NODE_REFUSED_KEYS_MAX = 4, /* the oldest beyond it are forgotten */
    NODE_LABELS_MAX = 64,
    NODE_SLOTS_MAX = 256,
    NODE_PAST_MAX = 8,
    NODE_FAULT_TEXT_BYTES = 256,
    NODE_STUCK_TEXT_BYTES = 160,
    ADDRESS_MAX = 127,
};

struct label {
    char key[LABEL_MAX + 1];
    char value[LABEL_MAX + 1];
};

struct node {
    char name[NAME_LENGTH_MAX + 1];
    enum node_state state;
    struct reason reason;
    uint64_t incarnation;         /* of its present agent */
    uint64_t past[NODE_PAST_MAX]; /* earlier incarnations, newest first: fenced for ever */
    uint64_t last_report;         /* sequence of the newest report processed */
    char address[ADDRESS_MAX + 1];
    char key[NODE_KEY_MAX + 1]; /* proved by its agent, and identifies the node; "" = none yet */
    char refused_keys[NODE_REFUSED_KEYS_MAX][NODE_KEY_MAX + 1]; /* removed from it by NODE_REKEY,
                                                                 * newest first */
    char let_in_by[TOKEN_ID_MAX + 1]; /* the join token; "" = from before this was kept */
    char version[32];
    int slots, cpus_milli;
    int64_t memory_bytes;
    int port_first, port_last;
    struct label labels[NODE_LABELS_MAX];
    int labels_count;
    struct gpu *gpus; /* gpus_count, owned */
    int gpus_count;
    char unenforced[512]; /* worker limits that it cannot enforce, and why; "" = none */
    bool connected;       /* its connection is open; false is a hint, not a verdict */
    bool gone;            /* derived: its connection was seen to end, and it is silent since */
    bool want_cordon, want_drain; /* set by the administrator; survives restarts */
    int64_t lease_until_ms;
    bool expiry_postponed; /* derived: the lease check was late; waiting reports are first */
    int64_t joined_wall_ms, seen_wall_ms;
    uint64_t desired_version; /* rises when its assignments change */
    /* derived from the workers placed on it */
    int slots_used, cpus_milli_used;
    int64_t memory_bytes_used;
    uint64_t slot_map[NODE_SLOTS_MAX / 64]; /* bit = slot in use */
    int foreign; /* unwanted workers that it runs; it gets no new ones until they have ended */
    int64_t fault_until_ms; /* it cannot start workers and gets no work before this time */
    int64_t fault_at_ms;    /* the last time; each one in a row waits longer */
    int faults;
    char fault_text[NODE_FAULT_TEXT_BYTES];
    int stuck; /* workers with processes that SIGKILL does not end; it gets no new ones */
    char stuck_text[NODE_STUCK_TEXT_BYTES]; /* the first of them, for messages */
    struct map jobs; /* jobs with a living worker here, by sequence (struct job *) */
    struct heap_node timer;
    uint64_t stamp;          /* number of the inventory or report being processed */
    struct map_entry *entry; /* its own in the table of nodes */
    bool shrunk;             /* it registered with less than its workers use */
};

#define NODE_EMPTYING "being emptied by an administrator" /* its reason, if none was given */

void node_free(struct node *node); /* NULL is allowed */

/* Have copies of these instead. */
void node_set_gpus(struct node *node, const struct gpu *gpus, int count);
/* True if no job gets the slot now: its GPU cannot be read any more, or has memory in use and no
 * worker (agent/core/slot.h). */
bool node_holds(const struct node *node, int slot);
int node_slots_held(const struct node *node); /* lost ones included */
int node_gpus_lost(const struct node *node);  /* that cannot be read any more */

/* True if `incarnation` is an earlier agent of the node, which is fenced. */
bool node_has_fenced(const struct node *node, uint64_t incarnation);
/* True if an administrator removed the key from the node. */
bool node_refuses_key(const struct node *node, const char *key);

#endif
