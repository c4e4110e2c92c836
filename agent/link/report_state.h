/* Shared by the files of the reporting socket (report_socket.h): its state, and how to answer
 * a program. Private to report_*.c. */
#ifndef LINK_REPORT_STATE_H
#define LINK_REPORT_STATE_H

#include "agent/link/lines.h"
#include "agent/link/report_answer.h"
#include "agent/link/report_line.h"
#include "agent/link/report_rate.h"
#include "agent/link/report_socket.h"
#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/map.h"

struct report_socket {
    struct env *env;
    struct loop *loop;
    struct rpc_client *upstream;
    struct report_events events;
    char prefix[REPORT_SOCKET_MAX_BYTES];
    char node[NAME_LENGTH_MAX + 1];
    uint64_t incarnation;
    struct list reporters;
    struct map calls; /* that wait, by number */
    uint64_t last_call;
};

struct reporter { /* one worker */
    struct report_socket *all;
    struct list link;
    struct worker_key key;
    struct lines *lines;
    bool stepped;                    /* `step` was reported to this agent */
    uint64_t step, total_steps;      /* 0 = not known */
    bool dirty;                      /* the core does not have `step` or `dropped` yet */
    int64_t sent_ms;                 /* of the last Progress event; 0 = none yet */
    struct loop_timer beat, release; /* for `dirty`, and for `held` */
    struct report_rate lines_rate, samples_rate;
    char *held; /* [LINES_BYTES + 1] newest step that was over the rate; NULL = never any */
    size_t held_size;
    uint64_t dropped, told_dropped;
    int64_t told_dropped_ms;
    int calls;
    int64_t saves_since_ms;           /* 0 = no step waits for a checkpoint */
    int64_t saved_ms;                 /* waits for checkpoints since the last step */
    char latest[REPORT_PATH_MAX + 1]; /* newest checkpoint that it reported, "" = none */
    uint64_t latest_step;
    char before_latest[REPORT_PATH_MAX + 1]; /* resume_from of the assignment at that time */
    int64_t stepped_ms, typical_ms;          /* the last step; mean time of one, 0 = unknown */
    int64_t timed_ms;                        /* of all steps together, without pauses */
    double waited_s;                         /* of them: for other ranks, by its lines */
    int64_t busy_until_ms;                   /* no step is expected before */
    bool quiet;                              /* no step for too long: reported each second */
    struct loop_timer watch;                 /* for that */
    struct buf stacks;                       /* being collected */
    struct loop_timer stacks_timer;
    pid_t stacks_pid;                   /* the process of the last part of them */
    char where[WAIT_OPERATION_MAX + 1]; /* innermost frame of them; "" = unknown */
};

/* Python's faulthandler writes pieces of a few bytes. Each costs a socket's buffer about 1 KiB, so
 * a dump would fill it. A pipe joins them: it has room for REPORT_STACKS_BYTES. What has no room
 * is lost, because its writing end does not block. The agent made the pipe, so that nothing the
 * program does can block the agent. */
struct report_pipe {
    struct reporter *r; /* NULL: there is none */
    struct lines_peer *peer;
    int fd; /* to read from */
};

struct report_peer { /* lines_data of a connection that has sent something */
    bool told_stop;
    uint64_t told_generation;
    int64_t told_error_ms;
    int signal;           /* of a connection for stacks; 0 = it is for lines */
    uint64_t start_ticks; /* of its process */
    struct report_pipe pipe;
};

struct report_call { /* it waits for the coordinator or the core */
    uint64_t number;
    struct reporter *reporter; /* NULL: its worker has ended */
    struct lines_peer *peer;   /* NULL: its connection is over, or no answer is due */
    struct report_socket *all; /* NULL: this agent ends */
    int64_t id;                /* -1: a note */
    enum report_kind kind;
    uint64_t step;
    bool waits; /* a get that waits for its key */
    char *path; /* of a whole checkpoint */
};

/* The worker, while it runs and has an assignment; else NULL, with an error. */
const struct agent_worker *reporter_worker(const struct reporter *r, struct error *err);
/* The generation that it is in. */
uint64_t reporter_generation(const struct agent_worker *worker);
struct report_place reporter_place(const struct reporter *r, const struct agent_worker *worker);

/* It has registered this checkpoint. */
void reporter_committed(struct reporter *r, const char *path, uint64_t step);

void reporter_drop(struct reporter *r, uint64_t count);
void reporter_say(struct reporter *r, struct lines_peer *peer, struct buf *out);
/* `id` -1: of a note: errors are sent at most one a second. `peer` NULL: nothing is sent. */
void reporter_fail(struct reporter *r, struct lines_peer *peer, int64_t id,
                   const struct error *err);
/* An answer without members. */
void reporter_done(struct reporter *r, struct lines_peer *peer, int64_t id);

#endif
