/* A coordinator and its sessions: ranks are threads, or processes that share the cluster's memory;
 * generations are declared by the test. Thread-safe.
 */
#ifndef TRAIN_FAKE_SESSION_H
#define TRAIN_FAKE_SESSION_H

#include <pthread.h>

#include "libworker/session/session.h"

enum { FAKE_WORKERS_MAX = 8 };

struct fake_cluster {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting; /* for it, in join and fake_await_loss */
    uint64_t generation;
    int members[FAKE_WORKERS_MAX]; /* worker ids by rank, of `generation` */
    int n_members;
    bool joined[FAKE_WORKERS_MAX]; /* by rank */
    char endpoints[FAKE_WORKERS_MAX][COMM_ENDPOINT_BYTES];
    bool stopping;                /* all of them */
    bool stops[FAKE_WORKERS_MAX]; /* one of them, by worker id */
    int64_t grace_ms; /* of a stop; a minute, so that no step of a busy machine takes it */
    int lost_reports;
    int commits;                    /* checkpoints done */
    int refuse_prepares;            /* so many are refused as of an old generation */
    int fail_commits, fail_code;    /* so many calls fail with this */
    int64_t last_step, total_steps; /* told by progress */
    int per_host;                   /* workers on a host, TCP between hosts; 0: all on one */
    char resume_from[CHECKPOINT_PATH_MAX];
    /* Called under lock, once per generation, when a member reports lost peers or leaves early: as
     * an agent would see its process end. May call fake_form_locked. */
    void (*on_lost)(struct fake_cluster *);
};

void fake_init(struct fake_cluster *cluster);
/* No rank is in join any more: ends the test if one was killed there. */
void fake_fini(struct fake_cluster *cluster);

/* Declare the next generation. */
void fake_form(struct fake_cluster *cluster, const int *workers, int n);
void fake_form_locked(struct fake_cluster *cluster, const int *workers, int n);
void fake_await_loss(struct fake_cluster *cluster); /* until a member has reported one */
void fake_stop(struct fake_cluster *cluster);
void fake_stop_one(struct fake_cluster *cluster, int worker);

/* The session of one worker; freed by the context it is given to. */
struct session *fake_session(struct fake_cluster *cluster, int worker);

#endif
