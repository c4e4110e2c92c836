/* A worker's interface to its job's manager: membership, stop requests, progress reports, and
 * permission to commit checkpoints. A small vtable, so that libworker works without it (alone,
 * torchrun, mpirun) and tests script it. The real one (session_rpc) calls WorkerHub of the agent on
 * its own thread.
 *
 * Made by the opener of the context and freed by the context. Slots may be called from any thread,
 * but join only from one at a time. Only join and commit block for longer than a lock.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/name.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/write.h"
#include "libworker/comm/comm.h"

enum {
    SESSION_PATH_MAX = CHECKPOINT_PATH_MAX,
    SESSION_WHY_MAX = 400,
    SESSION_METRIC_NAME_MAX = METRIC_NAME_MAX + 1,
    /* How long a member may need to its step boundary before its collectives are aborted, unless
     * the coordinator knows that all members are present and sets a longer time. */
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

/* Allocate the arrays for `world` members; release them. fini accepts zeroed memory. */
int session_group_init(struct session_group *group, int world, struct error *err);
void session_group_fini(struct session_group *group);

struct session_step { /* completed ones */
    int64_t step, total_steps;
    double seconds;        /* that all steps of this process took so far; 0 = unknown */
    double waited_seconds; /* of them: for other ranks, with nothing left to compute */
};

struct session;

struct session_ops {
    /* Ask to be a member of the next generation above `above` and wait until it is complete.
     * `endpoint` is this rank's address for the others. WK_ESTOPPED: the job must end. WK_EABORT:
     * this worker is not wanted any more. WK_EUNAVAILABLE, WK_ETIMEOUT: no answer. */
    int (*join)(struct session *, const char *endpoint, uint64_t above, struct session_group *ret,
                struct error *);
    /* The newest known generation; above the own one it means: leave at the next step boundary. */
    uint64_t (*target)(struct session *);
    /* Whether the job was asked to stop; then *ret_grace_ms is what is left to save in. */
    bool (*stopping)(struct session *, int64_t *ret_grace_ms);
    /* A step was completed. Sent in batches, latest wins. */
    void (*progress)(struct session *, const struct session_step *);
    /* Kept until the next batch; beyond a limit the oldest are dropped. Those of rank 0 are the
     * job's series. */
    void (*metric)(struct session *, int64_t step, const char *name, double value);
    /* Report these ranks of this generation as lost. */
    void (*lost)(struct session *, uint64_t generation, const int *ranks, int n_ranks);
    /* The two calls around a checkpoint (see checkpoint/folder.h). After `done` it removes the
     * checkpoints that the coordinator lists as beyond `keep`. */
    int (*commit)(struct session *, bool done, const struct checkpoint_claim *, struct error *);
    /* Send what is waiting (bounded) and end. */
    void (*free)(struct session *);
    /* Why the job was asked to stop, as a sentence; "" = not known. May be NULL. */
    void (*why)(struct session *, char ret[SESSION_WHY_MAX + 1]);
};

struct session {
    const struct session_ops *ops;
    /* Called when the worker is too late to leave this generation: makes collectives of
     * `generation` fail. Set by the context before the first join; any thread. */
    void (*abort)(void *arg, uint64_t generation);
    void *abort_arg;
    /* The present long wait of the generation's collectives, reported while it lasts. NULL:
     * unknown. Set and called as `abort`. */
    void (*status)(void *arg, struct wk_comm_status *ret);
    void *status_arg;
    /* True if the process was asked to end by another source: a waiting join then ends with
     * WK_ESTOPPED. NULL: never. Called on the joining thread. */
    bool (*interrupted)(void *arg);
    void *interrupted_arg;
};

struct session_address {
    const char *url;   /* MUSTER_WORKER_SOCKET */
    const char *token; /* the content of MUSTER_WORKER_TOKEN_FILE */
    const char *job;   /* MUSTER_JOB */
    uint64_t uid;      /* MUSTER_UID */
};

/* Connect to the agent. WK_EUNSUPPORTED in a build without the control plane. */
int session_open(const struct session_address *address, struct session **ret, struct error *err);

#endif
