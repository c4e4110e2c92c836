/* What a worker needs from whoever manages its job: membership, stop requests, word of progress,
 * and permission to commit checkpoints. A small vtable, so that libworker works without it (alone,
 * torchrun, mpirun) and tests script it. The real one (session_rpc) speaks WorkerHub to the agent
 * on a thread of its own.
 *
 * Made by whoever opens the context and freed by the context. Slots may be called from any thread,
 * but join only from one at a time; none but join and commit blocks for longer than a lock.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/comm/comm.h"

enum {
    SESSION_PATH_MAX = CHECKPOINT_PATH_MAX,
    SESSION_METRIC_NAME_MAX = 64,
    /* How long a member may take to reach its step boundary before its collectives are aborted,
     * unless the coordinator knows that all members are there and says longer. */
    SESSION_LEAVE_MS = 1000,
};

/* One generation, as every member of it sees it. */
struct session_group {
    uint64_t generation;
    int rank, world;
    int local_rank, local_world;
    char (*endpoints)[COMM_ENDPOINT_BYTES]; /* [world] */
    const char **endpoint_list;             /* [world], into endpoints */
    int *hosts;                             /* [world] */
    uint8_t secret[COMM_SECRET_BYTES];
    char resume_from[SESSION_PATH_MAX]; /* newest committed checkpoint, "" = none */
};

/* Allocate the arrays for `world` members; release them. fini takes zeroed memory. */
int session_group_init(struct session_group *group, int world, struct error *err);
void session_group_fini(struct session_group *group);

struct session;

struct session_ops {
    /* Ask to be a member of the next generation above `above` and wait until it is complete.
     * `endpoint` is where the others reach this rank. WK_ESTOPPED: the job is to end. WK_EABORT:
     * this worker is not wanted any more. WK_EUNAVAILABLE, WK_ETIMEOUT: nobody answers. */
    int (*join)(struct session *, const char *endpoint, uint64_t above, struct session_group *ret,
                struct error *);
    /* The newest generation heard of: above the own one means leave at the next step boundary. */
    uint64_t (*target)(struct session *);
    /* Whether the job was asked to stop; then *ret_grace_ms is what is left to save in. */
    bool (*stopping)(struct session *, int64_t *ret_grace_ms);
    /* A step was completed. Sent in batches, latest wins. */
    void (*progress)(struct session *, int64_t step, int64_t total_steps);
    /* Kept until the next batch; beyond a limit the oldest are dropped. */
    void (*metric)(struct session *, int64_t step, const char *name, double value);
    /* These ranks of this generation are gone. */
    void (*lost)(struct session *, uint64_t generation, const int *ranks, int n_ranks);
    /* The two calls around a checkpoint (see checkpoint/folder.h). After `done` removes what the
     * coordinator says is beyond `keep`. */
    int (*commit)(struct session *, bool done, const struct checkpoint_claim *, struct error *);
    /* Send what is waiting (bounded) and end. */
    void (*free)(struct session *);
};

struct session {
    const struct session_ops *ops;
    /* Called when this generation has been left behind for too long: makes collectives of
     * `generation` fail. Set by the context before the first join; any thread. */
    void (*abort)(void *arg, uint64_t generation);
    void *abort_arg;
    /* What the collectives of the present generation wait for, told onwards while it is long. NULL:
     * nobody can say. Set and called as `abort`. */
    void (*status)(void *arg, struct wk_comm_status *ret);
    void *status_arg;
    /* Whether the process was told to end by somebody else: a join that waits ends with
     * WK_ESTOPPED. NULL: never. Asked on the thread that joins. */
    bool (*interrupted)(void *arg);
    void *interrupted_arg;
};

struct session_address {
    const char *url;   /* MUSTER_WORKER_SOCKET */
    const char *token; /* what MUSTER_WORKER_TOKEN_FILE holds */
    const char *job;   /* MUSTER_JOB */
    uint64_t uid;      /* MUSTER_UID */
};

/* Connect to the agent. WK_EUNSUPPORTED in a build without the control plane. */
int session_open(const struct session_address *address, struct session **ret, struct error *err);

#endif
