/* Why something is as it is: the reason of a state or an event, and the list of its stable words.
 * Docs, REST and tests refer to them. Pure; any thread. */
#ifndef MODEL_REASON_H
#define MODEL_REASON_H

#include "common/base/buf.h"
#include "common/base/name.h"

struct job;

enum { REASON_OUTPUT_BYTES = 1024 };

/* The reason of a state or an event. `kind` is a stable word of the list in docs/reasons.md. */
struct reason {
    char kind[32];
    char text[512];
    char node[NAME_LENGTH_MAX + 1];
    int rank; /* -1 = none */
    char hint[256];
    char output[REASON_OUTPUT_BYTES]; /* the last relevant lines that rank wrote; "" = none */
};

/* The stable words of `struct reason.kind`, each once. */
#define REASONS(X)                                                                                 \
    X(SUBMITTED, submitted, "just accepted")                                                       \
    X(NO_NODES, no_nodes, "no node is ready")                                                      \
    X(WAITING_FOR_SLOTS, waiting_for_slots, "others use what it needs")                            \
    X(BEHIND, behind, "free resources are reserved for a job before it")                           \
    X(TENANT_LIMIT, tenant_limit, "its tenant uses as much as it may")                             \
    X(CONSTRAINT_UNMET, constraint_unmet, "no node carries the labels asked for")                  \
    X(TOPOLOGY_UNMET, topology_unmet, "too few nodes share the topology label's value")            \
    X(TOO_FEW_NODES, too_few_nodes, "the cluster has fewer fitting nodes than asked for")          \
    X(TOO_LARGE, too_large, "no node is large enough for its workers")                             \
    X(NO_PORTS, no_ports, "no port is left on the node of rank 0")                                 \
    X(BACKOFF, backoff, "waits before it is started again")                                        \
    X(PLACED, placed, "its workers are being started")                                             \
    X(ALL_JOINED, all_joined, "every rank has joined")                                             \
    X(ALL_STARTED, all_started, "every process has started")                                       \
    X(PREEMPTED, preempted, "a job with precedence takes its nodes")                               \
    X(SHRUNK, shrunk, "releases nodes that other jobs wait for")                                   \
    X(HALTED, halted, "the cluster is being stopped")                                              \
    X(MOVED, moved, "a part of it moves to another node to make room for a gang that waits")       \
    X(SPARE, spare, "a node is kept in case one is lost, or used because one was")                 \
    X(SCALED, scaled, "its number of nodes was changed")                                           \
    X(PRIORITY, priority, "others use what it needs and cannot be preempted")                      \
    X(QUOTA, quota, "others are guaranteed what it would borrow")                                  \
    X(FAIR_SHARE, fair_share, "its tenant has used more for its weight")                           \
    X(NODE_HEALTH, node_health, "nodes it could use are not healthy")                              \
    X(TENANT_SET, tenant_set, "a tenant was changed")                                              \
    X(STILL_TRAINS, still_trains, "its agent is silent, its ranks train on")                       \
    X(GPU_LINKS, gpu_links, "how GPUs of a node are connected, or that this has changed")          \
    X(GROWING, growing, "more nodes join it")                                                      \
    X(GROW_FAILED, grow_failed, "new workers did not join; it continues without them")             \
    X(WORKER_FAILED, worker_failed, "a worker ended with an error")                                \
    X(STOPPED, stopped, "a worker ended because it was asked to")                                  \
    X(REFUSED, refused, "its program refuses its settings; trying again cannot help")              \
    X(WORKER_LOST, worker_lost, "a worker ended for an unknown reason")                            \
    X(START_FAILED, start_failed, "a worker could not be started")                                 \
    X(OUT_OF_MEMORY, out_of_memory, "a worker was killed for memory")                              \
    X(NODE_LOST, node_lost, "a node was lost")                                                     \
    X(NODE_DRAINED, node_drained, "a node is being emptied")                                       \
    X(PEERS_LOST, peers_lost, "workers lost each other though none died")                          \
    X(JOIN_TIMEOUT, join_timeout, "ranks did not join in time, or had finished and never will")    \
    X(LATE, late, "most of its ranks wait for one to join")                                        \
    X(STALLED, stalled, "no step completes: ranks wait for one that is late, or all wait")         \
    X(STALL_OVER, stall_over, "it completes steps again")                                          \
    X(SLOW_RANK, slow_rank, "a rank needs far longer for its part of a step than the others")      \
    X(FINISH_TIMEOUT, finish_timeout, "some ranks finished, the others do not")                    \
    X(RESTART_BUDGET, restart_budget, "more failures without progress than restart.max")           \
    X(CRASH_LOOP, crash_loop, "the same failure again and again without a new step")               \
    X(MAX_RUNTIME, max_runtime, "ran longer than max_runtime")                                     \
    X(EARLY_SIGNAL, early_signal, "its workers were sent the signal that it wants before its end") \
    X(CANCELLED, cancelled, "it was cancelled")                                                    \
    X(SUCCEEDED, succeeded, "every rank finished")                                                 \
    X(STOP_OVERDUE, stop_overdue, "a worker does not end")                                         \
    X(REGISTERED, registered, "its agent registered")                                              \
    X(CLEARING, clearing, "ends workers that should not run there any more")                       \
    X(UNKILLABLE, unkillable, "a process on it does not end by SIGKILL")                           \
    X(NODE_FAULT, node_fault, "it cannot start workers for a reason of its own")                   \
    X(REPORTED, reported, "its agent reports again")                                               \
    X(CONNECTION_LOST, connection_lost, "its connection is lost")                                  \
    X(COORDINATOR_RESTARTED, coordinator_restarted, "the coordinator restarted")                   \
    X(LEASE_EXPIRED, lease_expired, "it was silent for longer than its lease")                     \
    X(PEERS_SAW_IT_DIE, peers_saw_it_die, "its connection is lost and its peers lost its ranks")   \
    X(FORGOTTEN, forgotten, "it was lost for a long time, or others were lost later")              \
    X(CHANNEL_OPENED, channel_opened, "a terminal or connection was opened beside a worker")       \
    X(CHANNEL_ENDED, channel_ended, "a terminal or connection beside a worker ended")              \
    X(CHANGES_REFUSED, changes_refused, "the coordinator cannot store changes: nothing starts")    \
    X(ADMINISTRATOR, administrator, "an administrator set it")

enum reason_kind {
#define X(upper, lower, text) REASON_##upper,
    REASONS(X)
#undef X
};

const char *reason_name(enum reason_kind kind); /* "no_nodes" */

/* Fill, with no node, rank, hint or output. A text that does not fit is cut. */
void reason_set(struct reason *ret, enum reason_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void reason_hint(struct reason *ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Write a name of `job` (its id or its name) for use in a text: between marks and with its tenant.
 * reason_show can then hide it from other tenants, also after the job is forgotten. The name of a
 * NULL job belongs to no tenant: only readers that see all jobs can read it. */
enum { REASON_NAME_MAX = 2 * NAME_LENGTH_MAX + 4 };
const char *reason_name_job(const struct job *job, const char *name, char ret[REASON_NAME_MAX]);

/* Write `text` for a reader of `tenant` (NULL = one that sees all). Names appear without marks,
 * names of other tenants' jobs as `others`. A mark that was cut is hidden like a whole one. */
void reason_show(const char *text, const char *tenant, const char *others, struct buf *out);

/* Keep the last whole lines of `output` (UTF-8) that fit; of a line that is too long, its end. */
void reason_output(struct reason *ret, const char *output);

#endif
