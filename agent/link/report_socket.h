/* Where programs without libworker report (docs/report.md): a Unix socket of lines for each worker.
 * Their lines become events of the core, samples of the outbox and calls of the coordinator, and
 * they get what the core decides. The limits of docs/report.md bound what a program costs this
 * agent, whatever it sends or does not read. Owned by the agent; loop thread only.
 *
 *     lines ──► report_line ──► report_socket ──► events, samples
 *                                  │    ▲
 *                                  ▼    │ answers
 *                               report_call ──► coordinator
 */
#ifndef LINK_REPORT_SOCKET_H
#define LINK_REPORT_SOCKET_H

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/metric.h"
#include "agent/core/pace.h"
#include "agent/core/worker.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/env/env.h"
#include "common/loop/loop.h"

struct report_socket;
struct rpc_client;

enum {
    REPORT_SOCKET_MAX_BYTES = 108, /* of its path, with the NUL: the kernel's limit */
    REPORT_BEAT_MS = 500,
    REPORT_LINES_PER_S = 2000, /* of a worker that are read, and how many at once */
    REPORT_LINES_BURST = 4000,
    REPORT_SAMPLES_PER_S = 500,
    REPORT_SAMPLES_BURST = 4096,
    REPORT_CALLS_MAX = 16,      /* of a worker that wait */
    REPORT_CALLS_ALL_MAX = 768, /* beside those of common/base/limits.h on the same connection */
    REPORT_ERROR_MS = 1000,     /* between errors of notes on a connection */
    REPORT_DROPPED_MS = 10000,  /* between events about what was dropped */
    REPORT_JOIN_MS = 600000,    /* a join that waits is answered after this */
    REPORT_QUIET_MS =
        8000, /* and REPORT_QUIET_STEPS steps: a worker without a new step is silent */
    REPORT_QUIET_STEPS = 20,
    REPORT_SAVE_MS = 600000, /* a checkpoint explains a pause up to this */
    REPORT_STACKS_BYTES = 64 << 10,
    REPORT_STACKS_MS = 2000,   /* for all of a worker's processes to write where they are */
    REPORT_FORWARD_MS = 20000, /* for the coordinator to answer; a `wait_s` is added */
};

struct report_events {
    void *arg;
    void (*event)(void *arg, struct agent_event *event); /* the receiver sets its time */
    void (*metric)(void *arg, const struct metric *metric);
    /* This worker completed steps; its program reported a number, whatever its rank is. */
    void (*stepped)(void *arg, const struct worker_key *key, const struct pace_mark *mark);
    void (*number)(void *arg, const struct worker_key *key, const char *name, double value);
    const struct agent_worker *(*worker)(void *arg, const struct worker_key *key); /* or NULL */
    /* Where the processes of a worker are, as they wrote it; not NUL-terminated. */
    void (*stacks)(void *arg, const struct agent_worker *worker, const char *text, size_t size);
    /* It is silent, and none of its processes offers its stacks: find them in another way. */
    void (*no_stacks)(void *arg, const struct agent_worker *worker);
};

struct report_options { /* texts are copied */
    const char *prefix; /* of all sockets' paths; "" = there are none (simulation) */
    const char *node;
    uint64_t incarnation;
    struct rpc_client *upstream; /* outlives the socket */
    struct report_events events;
};

int report_socket_new(const struct report_options *options, struct env *env, struct loop *loop,
                      struct report_socket **ret, struct error *err);
/* The sockets' files stay for the next agent. Accepts NULL. */
void report_socket_free(struct report_socket *all);

/* The path of this worker's socket; E_NOT_FOUND if there are none. */
int report_socket_path(const struct report_socket *all, const struct worker_key *key,
                       char ret[REPORT_SOCKET_MAX_BYTES]);
/* Listen for this worker; its processes are of user `owner` (-1: of this process's). 0 also if it
 * listens already. */
int report_socket_open(struct report_socket *all, const struct worker_key *key, int64_t owner,
                       struct error *err);
void report_socket_close(struct report_socket *all, const struct worker_key *key);

/* Ask this worker's processes where they are; report_events.stacks follows. False if none of them
 * offers it. */
bool report_socket_take_stacks(struct report_socket *all, const struct worker_key *key);
/* Its stacks were found in another way: a silent worker's place is reported with its silence. */
void report_socket_set_stacks(struct report_socket *all, const struct worker_key *key,
                              const char *text);

/* After a step of the core: send programs the events that follow from it. */
void report_socket_settle(struct report_socket *all);

/* True if AGENT_ACTION_ANSWER or _REFUSE to `request` belongs here. */
bool report_socket_owns(uint64_t request);
void report_socket_answer(struct report_socket *all, const struct agent_action *action);

#endif
