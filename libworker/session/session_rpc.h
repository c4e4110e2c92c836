/* Shared by the parts of the session with an agent: session_rpc.c (membership, stop, checkpoints),
 * session_progress.c (steps and metrics), session_wait.c (waits in collectives) and session_lost.c
 * (lost peers). Private to session/.
 *
 * The training thread and the saver's thread call the slots, the loop's thread makes the calls;
 * shared data is under `lock`.
 */
#ifndef SESSION_SESSION_RPC_H
#define SESSION_SESSION_RPC_H

#include <pthread.h>

#include "libworker/session/rpc_call.h"
#include "libworker/session/session.h"

enum {
    SESSION_METRICS_MAX = 16384, /* kept between beats; the oldest go first */
    SESSION_LOST_MAX = 64,       /* ranks reported for one generation */
    SESSION_PAUSE_MS = 200,      /* before trying again what failed at once */
};

struct session_metric {
    int64_t step, wall_ms;
    double value;
    bool own; /* of another rank than 0 */
    char name[SESSION_METRIC_NAME_MAX];
};

struct session_rpc {
    struct session base;
    struct hub hub;
    char *job;
    uint64_t uid;
    int64_t beat_ms;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t generation; /* joined last */
    uint64_t target;     /* newest known one */
    bool stopping;
    int64_t stop_at_ms;            /* wall clock: when the grace is over */
    char why[SESSION_WHY_MAX + 1]; /* it is stopping; "" = not known */
    struct session_step step;
    int rank;                       /* in `generation` */
    bool dirty;                     /* step or metrics wait to be sent */
    bool posted;                    /* session_send_soon is on its way to the loop */
    struct session_metric *metrics; /* ring [SESSION_METRICS_MAX] */
    size_t metrics_first, metrics_count;
    size_t metrics_sending;     /* of them, the first ones: in the Progress in flight */
    bool sending;               /* a Progress is in flight */
    bool closing;               /* no further one by the loop: the end sends the rest itself */
    struct wk_comm_status wait; /* long, of `generation`; waiting_us 0 = none */
    uint64_t lost_generation;   /* newest one that peers were lost of, 0 = none */
    uint32_t lost_ranks[SESSION_LOST_MAX];
    size_t lost_count;

    /* The loop's thread only. */
    struct loop_timer watch_timer, beat_timer, leave_timer, lost_timer, look_timer;
    uint64_t leaving; /* generation the leave timer is about */
    int64_t sent_ms;
    uint64_t sent_generation; /* of the last Progress */
};

/* Milliseconds since 1970. */
int64_t session_wall_ms(void);

/* The slots of these names. */
void session_progress(struct session *session, const struct session_step *step);
void session_metric(struct session *session, int64_t step, const char *name, double value);

/* Under lock: have the loop send what is new; whether session_send_soon is to be posted to it. */
bool session_dirty(struct session_rpc *s);
void session_send_soon(void *arg);

/* Look each second whether the collectives wait; on the loop's thread, as session_send_soon. */
void session_look(void *arg);

void session_lost(struct session *session, uint64_t generation, const int *ranks, int n_ranks);

/* Wait for what is in flight and send the rest, for a bounded time: the job's last step is then
 * known before its process ends. No Progress follows. */
void session_flush(struct session_rpc *s);

#endif
