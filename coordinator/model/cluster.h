/* The cluster's state: nodes, jobs, gangs. Plain structs and queries, no decisions. Only core
 * changes them, on the loop thread; api and store read them between steps. A pointer into a cluster
 * is never kept across a step. Times ending in `_ms` are monotonic, in `_wall_ms` since 1970.
 *
 *     job ── current group (the generation that trains) ── members by rank
 *         └─ forming group (the next generation, while it gathers) ── members by rank
 *         └─ workers by uid: every process not yet forgotten; a worker of both groups is a survivor
 */
#ifndef MODEL_CLUSTER_H
#define MODEL_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/name.h"
#include "common/base/token.h"
#include "coordinator/model/ledger.h"
#include "coordinator/model/spec.h"
#include "coordinator/model/tenant.h"

enum {
    CLUSTER_NODES_MAX = 20000,
    CLUSTER_JOBS_MAX = 200000,
    CLUSTER_JOBS_RESERVED = 5000, /* of these, for administrators */
    NODE_KEY_MAX = TOKEN_PIN_LENGTH,
    NODE_REFUSED_KEYS_MAX = 4, /* the oldest beyond it are forgotten */
    JOB_USER_MAX = 63,
    NODE_LABELS_MAX = 64,
    NODE_GPUS_MAX = 16,
    ADDRESS_MAX = 127,
    JOB_CHECKPOINTS_MAX = 64, /* kept in memory per job; older ones are forgotten, not deleted */
    PATH_LENGTH_MAX = 1023,
    SECRET_BYTES = 32,
    NODE_SLOTS_MAX = 256,
    NODE_PAST_MAX = 8,
    NODE_FAULT_TEXT_BYTES = 256,
    NODE_STUCK_TEXT_BYTES = 160,
    COLLECTIVE_RANKS_MAX = 16,
    REASON_OUTPUT_BYTES = 1024,
};

/* Exit codes with a meaning of their own. */
enum {
    EXIT_USAGE_ERROR = 64,     /* EX_USAGE of sysexits.h */
    EXIT_PEER_LOST = 76,       /* WK_EXIT_PEER: a worker ends because a peer did */
    EXIT_CONFIG = 78,          /* WK_EXIT_CONFIG, EX_CONFIG: its settings are refused */
    EXIT_NOT_EXECUTABLE = 126, /* as in shells and the agent */
    EXIT_NODE_FAULT = 74,      /* of a worker that was not started: its node cannot start any now */
    EXIT_NOT_FOUND = 127,
};

/* clang-format off */
#define NODE_STATES(X)                                                                             \
    X(JOINING, joining)                                                                            \
    X(READY, ready)                                                                                \
    X(CORDONED, cordoned)                                                                          \
    X(DRAINING, draining)                                                                          \
    X(DRAINED, drained)                                                                            \
    X(UNREACHABLE, unreachable)                                                                    \
    X(LOST, lost)
#define JOB_STATES(X)                                                                              \
    X(QUEUED, queued)                                                                              \
    X(STARTING, starting)                                                                          \
    X(RUNNING, running)                                                                            \
    X(REFORMING, reforming)                                                                        \
    X(RESTARTING, restarting)                                                                      \
    X(PREEMPTING, preempting)                                                                      \
    X(STOPPING, stopping)                                                                          \
    X(SUCCEEDED, succeeded)                                                                        \
    X(FAILED, failed)                                                                              \
    X(CANCELLED, cancelled)
#define WORKER_STATES(X)                                                                           \
    X(ASSIGNED, assigned)                                                                          \
    X(STARTING, starting)                                                                          \
    X(JOINED, joined)                                                                              \
    X(STOPPING, stopping)                                                                          \
    X(EXITED, exited)
/* clang-format on */

enum node_state {
#define X(upper, lower) NODE_##upper,
    NODE_STATES(X)
#undef X
};
enum job_state {
#define X(upper, lower) JOB_##upper,
    JOB_STATES(X)
#undef X
};
enum worker_state {
#define X(upper, lower) WORKER_##upper,
    WORKER_STATES(X)
#undef X
};

const char *node_state_name(enum node_state state); /* "ready", as in proto and REST */
const char *job_state_name(enum job_state state);
const char *worker_state_name(enum worker_state state);
bool job_state_ended(enum job_state state);

/* The reason of a state or an event. `kind` is a stable word of the list in docs/reasons.md. */
struct reason {
    char kind[32];
    char text[512];
    char node[NAME_LENGTH_MAX + 1];
    int rank; /* -1 = none */
    char hint[256];
    char output[REASON_OUTPUT_BYTES]; /* the last relevant lines that rank wrote; "" = none */
};

struct gpu {
    int index;
    char model[64];
    char uuid[48];
    int64_t memory_bytes;
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
    char version[32];
    int slots, cpus_milli;
    int64_t memory_bytes;
    int port_first, port_last;
    struct label labels[NODE_LABELS_MAX];
    int labels_count;
    struct gpu gpus[NODE_GPUS_MAX];
    int gpus_count;
    char unenforced[512]; /* worker limits that it cannot enforce, and why; "" = none */
    bool connected;       /* its connection is open; false is a hint, not a verdict */
    bool gone;            /* derived: its connection was seen to end, and it is silent since */
    bool want_cordon, want_drain; /* set by the administrator; survives restarts */
    int64_t lease_until_ms;
    bool expiry_postponed; /* derived: the lease check was late; waiting reports come first */
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

struct exit_info {
    int code, signal;
    bool oom, lost;
    bool unstarted;  /* the process never existed */
    bool node_fault; /* and the cause was its node: it costs the job nothing */
    char text[256];
    char last_output[2048];
    int64_t wall_ms;
};

struct collective_wait { /* in a collective, for other ranks */
    char communicator[32];
    char operation[128];      /* "all_reduce #7 (sum of 1000 f32, 4000 bytes)" */
    uint64_t sequence;        /* number of the operation in its communicator */
    int64_t bytes, waited_ms; /* waited_ms 0 = not waiting */
    uint32_t ranks[COLLECTIVE_RANKS_MAX];
    int ranks_named, ranks_count; /* number of entries in `ranks`, and of all such ranks */
};

struct worker {
    uint64_t uid;
    char node[NAME_LENGTH_MAX + 1];
    enum worker_state state;
    bool should_stop; /* the desired state is to end it */
    bool leaving;     /* its node is given back: it is not in the next group */
    bool spare;       /* in no group: keeps its slots for the gang in case a node is lost. Always
                       * `held` too; its agent does not know of it */
    bool held;        /* backoff: must not start yet, so not in the desired state */
    bool aware;       /* uses libworker's protocol */
    int slot;         /* first slot on its node */
    int local_rank;   /* place on its node, never changes */
    int64_t pid;
    uint64_t step;
    uint64_t joined;  /* newest generation it has joined */
    uint64_t joining; /* generation it asks to join (endpoint is set); 0 = none */
    char endpoint[ENDPOINT_MAX + 1];
    uint64_t broken;     /* generation in which it lost peers */
    uint64_t lost_in;    /* generation in which peers reported losing it */
    uint64_t born;       /* generation it was started for */
    uint64_t generation; /* newest group it is or was a member of */
    int rank;            /* in that group */
    struct exit_info exit;
    /* derived, not stored */
    uint64_t stamp;              /* of the last inventory or report that named it */
    int64_t started_ms;          /* first seen running */
    struct collective_wait wait; /* in generation `joined` */
};

/* One membership: ranks 0..world-1 are workers[members[rank]] by uid. */
struct group {
    uint64_t generation; /* 0 = no group */
    int world;
    uint64_t *members; /* uid by rank, `world` of them, owned by the group */
    bool published;    /* all joined, or unaware and started: the gang is complete and runs */
    bool joined;       /* all joined: endpoints are known, membership is published */
    bool open;         /* forming: survivors are asked to leave the current group */
    bool broken;       /* lost a member: it may not commit checkpoints any more */
    char master_node[NAME_LENGTH_MAX + 1];
    int master_port;
    int64_t since_ms;
    struct group_place *places; /* by rank; derived, not stored */
    int nodes;                  /* derived */
};

struct group_place { /* place of a rank among the nodes of its group */
    int node_rank;   /* nodes in order of their lowest rank */
    int local_world; /* members on that node */
};

struct checkpoint {
    uint64_t step, generation;
    char path[PATH_LENGTH_MAX + 1];
    int64_t wall_ms, size_bytes;
    int world;
};

struct job {
    char id[JOB_ID_MAX + 1];
    uint64_t sequence; /* order of submission */
    struct spec *spec;
    int64_t spec_bytes; /* of its JSON, as counted for its tenant; derived */
    enum job_state state;
    struct reason reason; /* why it is in this state */
    uint64_t version;     /* rises with every change */
    uint64_t next_generation, next_uid;
    struct group current, forming;
    struct worker *workers; /* by uid, ascending */
    int workers_count, workers_capacity;
    struct checkpoint *checkpoints; /* committed ones, by generation and step, ascending */
    int checkpoints_count;
    uint8_t secret[SECRET_BYTES]; /* worker tokens and handshake secrets are derived from it */
    /* restart budget */
    int restarts; /* in total */
    int restarts_without_progress;
    int nodes_min, nodes_max;      /* from EVENT_JOB_SCALE; 0 = as in its spec */
    char gives_to[JOB_ID_MAX + 1]; /* for leaving workers and preemption: the job that gets the
                                    * nodes; "" = none */
    uint64_t progress_step;        /* best step when the last failure was seen */
    int same_cause;                /* consecutive failures with the same cause and no new step */
    char last_cause[256];
    uint64_t charged_generation; /* newest one when the last failure was charged: a worker of these
                                  * generations that dies later belongs to the same failure */
    char preempted_by[JOB_ID_MAX + 1]; /* while queued: the job that got its nodes; "" = none */
    int64_t preempted_wall_ms;         /* since when; 0 = it was not running before */
    int64_t cause_wall_ms;             /* when the failure in `reason` happened; 0 = none */
    bool may_be_excused;               /* stopping because its program failed; that may be the
                                        * consequence of */
    bool excused;                      /* a rank killed from outside, which is known by now */
    int64_t backoff_until_ms;
    int64_t grow_after_ms; /* growth failed: not again before */
    int grow_failures;     /* in a row */
    /* progress, as reported */
    uint64_t step, total_steps;
    double loss, tokens_per_second; /* NAN = not reported yet */
    int64_t stalled_wall_ms;        /* running, and stalled since; 0 = not stalled */
    /* the recovery being measured */
    int64_t broken_at_ms; /* 0 = nothing to recover from */
    uint64_t broken_at_step;
    uint64_t recoveries;
    int64_t last_recovery_ms;
    int64_t stop_deadline_ms; /* 0 = none */
    int64_t kill_due_ms; /* derived: agents send SIGKILL to stopping workers from then on; 0 = at
                          * any time */
    /* max_runtime counts while the job has nodes, from the first time it runs */
    int64_t runtime_deadline_ms;    /* 0 = not counting */
    int64_t runtime_used_ms;        /* counted until it last waited for nodes */
    int64_t runtime_counts_wall_ms; /* counting since; 0 = not counting */
    bool cancel_requested;
    enum job_state ending; /* while stopping: the state that follows */
    int exit_code;
    int64_t submitted_wall_ms, started_wall_ms, ended_wall_ms;
    int64_t running_wall_ms; /* the whole gang runs since; 0 = it is being started */
    char idempotency_key[128];
    char user[JOB_USER_MAX + 1]; /* the submitter; "" = unknown */
    struct ledger ledger;
    double use;          /* its share of its tenant's use (tenant.h), as of use_wall_ms */
    int64_t use_wall_ms; /* 0 = not counted yet */
    /* derived, not stored */
    int slots_used;
    struct tenant *tenant;
    int64_t progress_at_ms;    /* when its step rose or a worker finished */
    int64_t stepped_at_ms;     /* when its step rose */
    int64_t went_on_at_ms;     /* when its last stall ended; 0 = it had none */
    int64_t starts_at_ms;      /* while it waits: its expected start; 0 = unknown */
    int64_t starts_wall_ms;    /* the same as wall time */
    int64_t moved_at_ms;       /* when a part of it moved to make room */
    int64_t capacity_since_ms; /* it could restart with more nodes since; 0 = it could not */
    bool grow_now;             /* growth was requested: do not wait until it has settled */
    bool waiting;              /* listed by cluster_first_waiting: it may be placed */
    struct map_entry *begun, *flexible; /* its entries in those maps; NULL = not in the map */
    struct heap_node timer;
    struct job *older_in_folder; /* the next older job with the same checkpoint folder */
};

struct cluster; /* maps of nodes by name and jobs by id and by sequence; see cluster.c */

struct cluster *cluster_new(uint64_t seed); /* seed of its own random stream (backoff jitter) */
void cluster_free(struct cluster *cluster);

/* Queries. NULL if there is none. Iteration: nodes by name, jobs by sequence. */
struct node *cluster_node(const struct cluster *cluster, const char *name);
struct job *cluster_job(const struct cluster *cluster, const char *id);
struct job *cluster_job_named(const struct cluster *cluster, const char *name); /* newest */
struct job *cluster_job_by_key(const struct cluster *cluster, const char *tenant,
                               const char *idempotency_key);
struct node *cluster_first_node(const struct cluster *cluster);
struct node *cluster_next_node(const struct cluster *cluster, const struct node *node);
struct job *cluster_first_job(const struct cluster *cluster);
struct job *cluster_job_from(const struct cluster *cluster, uint64_t sequence); /* this one or the
                                                                                 * next */
struct job *cluster_next_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_last_job(const struct cluster *cluster);
struct job *cluster_prev_job(const struct cluster *cluster, const struct job *job);
/* Three lists. Active: jobs that have not ended, by sequence. Begun: active jobs that are not
 * queued, by sequence. Waiting: jobs that wait for a place, in order: higher priority first, then
 * by sequence.
 *
 * Only begun jobs have living workers. They are few however long the queue is, so code that looks
 * for workers iterates over them (100,000 jobs, and every submit is a pass).
 */
struct job *cluster_first_active_job(const struct cluster *cluster);
struct job *cluster_next_active_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_begun_job(const struct cluster *cluster);
struct job *cluster_next_begun_job(const struct cluster *cluster, const struct job *job);
/* Begun jobs that may have more nodes than they need, or have spares. */
struct job *cluster_first_flexible_job(const struct cluster *cluster);
struct job *cluster_next_flexible_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_waiting(const struct cluster *cluster);
struct job *cluster_next_waiting(const struct cluster *cluster, const struct job *job);
/* Jobs with their checkpoints in the folder of `spec`, ended ones too, newest first. */
struct job *cluster_first_in_folder(const struct cluster *cluster, const struct spec *spec);
struct job *cluster_next_in_folder(const struct job *job);
int cluster_nodes_count(const struct cluster *cluster);
int cluster_jobs_count(const struct cluster *cluster);
/* True if `incarnation` is an earlier agent of the node, which is fenced. */
bool node_was_told_by(const struct node *node, uint64_t incarnation);
/* True if an administrator removed the key from the node. */
bool node_refuses_key(const struct node *node, const char *key);
struct worker *job_worker(const struct job *job, uint64_t uid);
const struct checkpoint *job_last_checkpoint(const struct job *job); /* to resume from, or NULL */
/* True if checkpoints[at] is not kept: beyond spec->checkpoint_keep, or later than where training
 * continued. */
bool job_checkpoint_spare(const struct job *job, int at);
int group_rank_of(const struct group *group, uint64_t uid); /* -1 = not a member */

/* Changes, for core and for loading the store. The cluster takes ownership: it frees nodes with
 * node_free and jobs with job_free, which free their arrays with free(). On failure the caller
 * still owns its argument. Loading adds all nodes before the first job. Fields marked derived are
 * computed here and need not be stored. */
int cluster_add_node(struct cluster *cluster, struct node *node, struct error *err);
int cluster_add_job(struct cluster *cluster, struct job *job, struct error *err);
uint64_t cluster_next_sequence(struct cluster *cluster);
/* Never assign a number below `first` again: their jobs are forgotten, their ids are not. */
void cluster_skip_sequences(struct cluster *cluster, uint64_t first);
/* Forget and free an ended job without living workers. Never in the middle of a step. */
void cluster_remove_job(struct cluster *cluster, struct job *job);
struct rng *cluster_rng(struct cluster *cluster);
void node_free(struct node *node); /* NULL is allowed */
void job_free(struct job *job);    /* releases the spec; NULL is allowed */

/* Update the lists after a change of job->state, job->spec or `waiting`. */
void cluster_job_moved(struct cluster *cluster, struct job *job, bool waiting);

/* Set when a job or node is due (INT64_MAX = never), and return those that are due. */
void cluster_wake_job(struct cluster *cluster, struct job *job, int64_t at_ms);
void cluster_wake_node(struct cluster *cluster, struct node *node, int64_t at_ms);
int64_t cluster_next_wake(const struct cluster *cluster);
struct job *cluster_due_job(struct cluster *cluster, int64_t now_ms);   /* removes it from the
                                                                         * timers; or NULL */
struct node *cluster_due_node(struct cluster *cluster, int64_t now_ms); /* removes it from the
                                                                         * timers; or NULL */

/* A new worker in `ASSIGNED` occupies its slots; job_worker_gone sets EXITED and frees them.
 * Pointers to workers of this job are invalid after an addition. Aborts if memory is out. */
struct worker *job_add_worker(struct cluster *cluster, struct job *job,
                              const struct worker *worker);
void job_worker_gone(struct cluster *cluster, struct job *job, struct worker *worker);
void job_forget_workers(struct job *job); /* those that exited and are in no group */

/* Replace a group; `members` is copied. group_clear makes it "no group" and frees its port.
 * group_move empties `from`. */
void group_set(struct cluster *cluster, struct job *job, struct group *group,
               const struct group *value);
void group_clear(struct cluster *cluster, struct job *job, struct group *group);
void group_move(struct group *to, struct group *from);

/* Change the node's address; ports reserved there move with it. */
void cluster_move_node(struct cluster *cluster, struct node *node, const char *address);

/* A port of this node's range that no active job has on the same address; 0 = none is free. */
int cluster_free_port(struct cluster *cluster, const struct node *node);

/* Stop placing for the rest of this coordinator's life. */
void cluster_halt(struct cluster *cluster);
bool cluster_halted(const struct cluster *cluster);

/* True if a pass over the queue is needed, because free resources or waiting jobs changed. */
void cluster_want_pass(struct cluster *cluster, bool wanted);
bool cluster_wants_pass(const struct cluster *cluster);
/* True if the present pass may give all jobs in front of the queue a new reason: once in
 * `every_ms`. If not, a pass is wanted at the next time it may. */
bool cluster_front_reasons_due(struct cluster *cluster, int64_t every_ms);
/* When a pass is wanted for that; INT64_MAX = not. */
int64_t cluster_front_due_ms(const struct cluster *cluster);
/* Begin a pass. Returns the first job submitted since the last pass, or NULL. */
struct job *cluster_begin_pass(struct cluster *cluster);
uint64_t cluster_passes(const struct cluster *cluster); /* number of passes in this coordinator's
                                                         * life */

/* A worker that a node should run or still stop. */
struct assignment {
    const struct job *job;
    const struct worker *worker;
    const struct group *group; /* its group now: forming once that is open to it; never NULL, but
                                * generation 0 for a stopping worker without a group */
    uint64_t generation;       /* its generation; never falls for a worker */
    int rank, world, local_rank, local_world, node_rank, node_count;
    bool stop, reform;
    bool complete;  /* with reform: all ranks it leaves are present, so the step in progress will
                     * complete */
    bool published; /* all members joined `group`: membership is published */
};
/* Calls fn for each, in order of (job sequence, uid). */
typedef void (*assignment_fn)(void *arg, const struct assignment *assignment);
void cluster_assignments(const struct cluster *cluster, const char *node_name, assignment_fn fn,
                         void *arg);

#endif
