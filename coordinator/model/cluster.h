/* What is: nodes, jobs, gangs. Plain structs and queries, no decisions. Only core changes them, on
 * the loop thread; api and store read them between steps. No pointer into a cluster is kept across
 * a step. Times ending in `_ms` are monotonic, in `_wall_ms` since 1970.
 *
 *   job ── current group (the generation that trains) ── members by rank
 *       └─ forming group (the next generation, while it gathers) ── members by rank
 *       └─ workers by uid: every process not yet forgotten; a worker of both groups is a survivor
 */
#ifndef MODEL_CLUSTER_H
#define MODEL_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/heap.h"
#include "common/base/map.h"
#include "coordinator/model/ledger.h"
#include "coordinator/model/spec.h"
#include "coordinator/model/tenant.h"

enum {
    CLUSTER_NODES_MAX = 20000,
    CLUSTER_JOBS_MAX = 200000,
    CLUSTER_JOBS_RESERVED = 5000, /* of these, for administrators */
    NODE_NAME_MAX = 63,
    NODE_KEY_MAX = 43,         /* a pin, common/env/tls_key.h */
    NODE_REFUSED_KEYS_MAX = 4, /* the oldest beyond it are forgotten */
    JOB_USER_MAX = 63,
    NODE_LABELS_MAX = 64,
    NODE_GPUS_MAX = 16,
    ADDRESS_MAX = 127,
    ENDPOINT_MAX = 159,
    JOB_ID_MAX = 31,
    JOB_CHECKPOINTS_MAX = 64, /* remembered per job; older ones are forgotten, not deleted */
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
    EXIT_PEER_LOST = 76,       /* WK_EXIT_PEER: how a worker ends because a peer did */
    EXIT_CONFIG = 78,          /* WK_EXIT_CONFIG, EX_CONFIG: its settings are refused */
    EXIT_NOT_EXECUTABLE = 126, /* as shells and the agent say it */
    EXIT_NODE_FAULT = 74,      /* of one that was not started: its node starts nobody now */
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

const char *node_state_name(enum node_state state); /* "ready": the word of proto and REST */
const char *job_state_name(enum job_state state);
const char *worker_state_name(enum worker_state state);
bool job_state_ended(enum job_state state);

/* Why something is as it is. `kind` is a stable word of the list in docs/reasons.md. */
struct reason {
    char kind[32];
    char text[512];
    char node[NODE_NAME_MAX + 1];
    int rank; /* -1 = none */
    char hint[256];
    char output[REASON_OUTPUT_BYTES]; /* the last lines that rank wrote; "" = none that matter */
};

struct gpu {
    int index;
    char model[64];
    char uuid[48];
    int64_t memory_bytes;
};

struct label {
    char key[64];
    char value[64];
};

struct node {
    char name[NODE_NAME_MAX + 1];
    enum node_state state;
    struct reason reason;
    uint64_t incarnation;         /* of the agent that may speak for it */
    uint64_t past[NODE_PAST_MAX]; /* incarnations before it, newest first: fenced for good */
    uint64_t last_report;         /* sequence of the newest report taken */
    char address[ADDRESS_MAX + 1];
    char key[NODE_KEY_MAX + 1]; /* its agent proves; "" = none yet. Who has it is this node */
    char refused_keys[NODE_REFUSED_KEYS_MAX][NODE_KEY_MAX + 1]; /* that were taken from it by
                                                                 * NODE_REKEY, newest first */
    char version[32];
    int slots, cpus_milli;
    int64_t memory_bytes;
    int port_first, port_last;
    struct label labels[NODE_LABELS_MAX];
    int labels_count;
    struct gpu gpus[NODE_GPUS_MAX];
    int gpus_count;
    char unenforced[512]; /* limits of workers that it cannot enforce, and why; "" = none */
    bool connected;       /* its connection stands; false = a hint, not a verdict */
    bool gone;            /* derived: its connection was seen to end, and it is silent since */
    bool want_cordon, want_drain; /* what the administrator set; survives restarts */
    int64_t lease_until_ms;
    bool late_verdict; /* derived: its lease was seen to be over too late; it has a last word */
    int64_t joined_wall_ms, seen_wall_ms;
    uint64_t desired_version; /* rises when what should run on it changes */
    /* derived from the workers placed on it */
    int slots_used, cpus_milli_used;
    int64_t memory_bytes_used;
    uint64_t slot_map[NODE_SLOTS_MAX / 64]; /* bit = slot taken */
    int foreign; /* workers it runs that nobody wants there; it gets no new ones while it ends them
                  */
    int64_t fault_until_ms; /* it starts nobody for a reason of its own, and gets no work before */
    int64_t fault_at_ms;    /* the last time; after each in a row it waits longer */
    int faults;
    char fault_text[NODE_FAULT_TEXT_BYTES];
    int stuck; /* workers whose processes SIGKILL does not end; it gets no new ones either */
    char stuck_text[NODE_STUCK_TEXT_BYTES]; /* the first of them, as people read it */
    struct map jobs; /* jobs with a living worker here, by sequence (struct job *) */
    struct heap_node timer;
    uint64_t stamp;          /* number of the inventory or report being taken */
    struct map_entry *entry; /* its own in the table of nodes */
    bool shrunk;             /* registered smaller than what already runs on it */
};

struct exit_info {
    int code, signal;
    bool oom, lost;
    bool unstarted;  /* there never was a process */
    bool node_fault; /* and that was its node's fault: it costs its job nothing */
    char text[256];
    char last_output[2048];
    int64_t wall_ms;
};

struct collective_wait { /* in a collective, for other ranks */
    char communicator[32];
    char operation[128];      /* "all_reduce #7 (sum of 1000 f32, 4000 bytes)" */
    uint64_t sequence;        /* of the operation in its communicator */
    int64_t bytes, waited_ms; /* waited_ms 0 = it does not wait */
    uint32_t ranks[COLLECTIVE_RANKS_MAX];
    int ranks_named, ranks_count; /* in `ranks`, and all there are */
};

struct worker {
    uint64_t uid;
    char node[NODE_NAME_MAX + 1];
    enum worker_state state;
    bool should_stop; /* the desired state says end it */
    bool leaving;     /* its node is given back: the next group goes on without it */
    bool spare;       /* no member of any group: keeps its slots for the gang in case a node is
                       * lost. Always held too; its agent does not hear of it */
    bool held;        /* backoff: not to be started yet, so not in the desired state */
    bool aware;       /* speaks libworker's protocol */
    int slot;         /* first slot on its node */
    int local_rank;   /* place on its node, kept for life */
    int64_t pid;
    uint64_t step;
    uint64_t joined;  /* newest generation it has joined */
    uint64_t joining; /* generation it asks to join, with endpoint; 0 = none */
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
    uint64_t generation; /* 0 = there is no such group */
    int world;
    uint64_t *members; /* uid by rank, `world` of them, owned by the group */
    bool published;    /* all joined, or unaware and started: the gang is whole and runs */
    bool joined;       /* all joined: endpoints are known, membership is given out */
    bool open;         /* forming: survivors are told to leave the current group */
    bool broken;       /* lost a member: it will not commit checkpoints any more */
    char master_node[NODE_NAME_MAX + 1];
    int master_port;
    int64_t since_ms;
    struct group_place *places; /* by rank; derived, not stored */
    int nodes;                  /* derived */
};

struct group_place { /* where a rank is among the nodes of its group */
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
    int64_t spec_bytes; /* of its JSON, as it counts for its tenant; derived */
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
    int nodes_min, nodes_max;      /* by EVENT_JOB_SCALE; 0 = as its spec said */
    char gives_to[JOB_ID_MAX + 1]; /* leaving workers and preemption: for whom; "" = nobody */
    uint64_t progress_step;        /* best step when the last failure was seen */
    int same_cause;                /* consecutive failures with the same cause and no new step */
    char last_cause[256];
    uint64_t charged_generation; /* newest one when the last failure was charged: what dies of those
                                  * generations later is the same failure */
    char preempted_by[JOB_ID_MAX + 1]; /* while queued: whom it gave its nodes to; "" = nobody */
    int64_t preempted_wall_ms;         /* since when; 0 = it was not running before */
    int64_t cause_wall_ms;             /* when the failure that is the reason happened; 0 = none */
    bool may_be_excused;               /* stopping since its program failed: that may follow from */
    bool excused;                      /* a rank's end from outside, which was heard of by now */
    int64_t backoff_until_ms;
    int64_t grow_after_ms; /* growing failed: not again before */
    int grow_failures;     /* in a row */
    /* progress, as reported */
    uint64_t step, total_steps;
    double loss, tokens_per_second; /* NAN = not told yet */
    int64_t stalled_wall_ms;        /* running, and stands still since; 0 = it goes on */
    /* recovery being measured */
    int64_t broken_at_ms; /* 0 = nothing to recover from */
    uint64_t broken_at_step;
    uint64_t recoveries;
    int64_t last_recovery_ms;
    int64_t stop_deadline_ms; /* 0 = none */
    int64_t kill_due_ms; /* derived: agents send SIGKILL to what stops from then on; 0 = they may
                          */
    /* max_runtime counts while it holds nodes, from the first time it runs */
    int64_t runtime_deadline_ms;    /* 0 = it does not count */
    int64_t runtime_used_ms;        /* counted until the last time it waited for nodes again */
    int64_t runtime_counts_wall_ms; /* since when it counts; 0 = it does not */
    bool cancel_requested;
    enum job_state ending; /* while stopping: the state that follows */
    int exit_code;
    int64_t submitted_wall_ms, started_wall_ms, ended_wall_ms;
    int64_t running_wall_ms; /* since when the gang runs as a whole; 0 = it is being started */
    char idempotency_key[128];
    char user[JOB_USER_MAX + 1]; /* who submitted it; "" = not known */
    struct ledger ledger;
    double use;          /* its part of its tenant's use (tenant.h), as of use_wall_ms */
    int64_t use_wall_ms; /* 0 = not counted yet */
    /* derived, not stored */
    int slots_used;
    struct tenant *tenant;
    int64_t progress_at_ms; /* its step rose or a worker finished */
    int64_t stepped_at_ms;  /* its step rose */
    int64_t went_on_at_ms;  /* its last stall ended; 0 = it had none */
    int64_t starts_at_ms;   /* while it waits: when it is expected to start; 0 = nobody can say */
    int64_t starts_wall_ms; /* the same by the calendar */
    int64_t moved_at_ms;    /* a part of it moved to make room */
    int64_t room_since_ms;  /* it could start again with more nodes; 0 = it could not */
    bool grow_now;          /* somebody asked for it: without the time to settle */
    bool waiting;           /* among cluster_first_waiting: it may be placed */
    struct map_entry *begun, *flexible; /* its own among those; NULL = it is none of them */
    struct heap_node timer;
    struct job *older_in_folder; /* that keeps its checkpoints where this one does */
};

struct cluster; /* maps of nodes by name and jobs by id and by sequence; see cluster.c */

struct cluster *cluster_new(uint64_t seed); /* seed of its own random stream (backoff jitter) */
void cluster_free(struct cluster *cluster);

/* Queries. NULL where there is none. Iteration: nodes by name, jobs by sequence. */
struct node *cluster_node(const struct cluster *cluster, const char *name);
struct job *cluster_job(const struct cluster *cluster, const char *id);
struct job *cluster_job_named(const struct cluster *cluster, const char *name); /* newest */
struct job *cluster_job_by_key(const struct cluster *cluster, const char *tenant,
                               const char *idempotency_key);
struct node *cluster_first_node(const struct cluster *cluster);
struct node *cluster_next_node(const struct cluster *cluster, const struct node *node);
struct job *cluster_first_job(const struct cluster *cluster);
struct job *cluster_job_from(const struct cluster *cluster, uint64_t sequence); /* or the next */
struct job *cluster_next_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_last_job(const struct cluster *cluster);
struct job *cluster_prev_job(const struct cluster *cluster, const struct job *job);
/* Jobs that have not ended, by sequence; those of them that are not queued, by sequence: only they
 * have living workers, and they are few however long the queue is (100,000 jobs, and every
 * submit is a pass: who looks for workers looks here); jobs that wait for a place, in
 * the order they get one: higher priority first, then by sequence. */
struct job *cluster_first_active_job(const struct cluster *cluster);
struct job *cluster_next_active_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_begun_job(const struct cluster *cluster);
struct job *cluster_next_begun_job(const struct cluster *cluster, const struct job *job);
/* Of the begun ones those that may have more nodes than they need, or keep spares. */
struct job *cluster_first_flexible_job(const struct cluster *cluster);
struct job *cluster_next_flexible_job(const struct cluster *cluster, const struct job *job);
struct job *cluster_first_waiting(const struct cluster *cluster);
struct job *cluster_next_waiting(const struct cluster *cluster, const struct job *job);
/* Jobs that keep their checkpoints in the folder of `spec`, ended ones too, newest first. */
struct job *cluster_first_in_folder(const struct cluster *cluster, const struct spec *spec);
struct job *cluster_next_in_folder(const struct job *job);
int cluster_nodes_count(const struct cluster *cluster);
int cluster_jobs_count(const struct cluster *cluster);
/* An agent spoke for the node under this number before the one that does now: never again. */
bool node_was_told_by(const struct node *node, uint64_t incarnation);
/* The key was taken from the node by an administrator. */
bool node_refuses_key(const struct node *node, const char *key);
struct worker *job_worker(const struct job *job, uint64_t uid);
const struct checkpoint *job_last_checkpoint(const struct job *job); /* to resume from, or NULL */
/* checkpoints[at] is not kept: beyond spec->checkpoint_keep, or training has gone back behind it.
 */
bool job_checkpoint_spare(const struct job *job, int at);
int group_rank_of(const struct group *group, uint64_t uid); /* -1 = not a member */

/* Changes, for core and for loading the store. The cluster takes ownership: it frees nodes with
 * node_free and jobs with job_free, which free their arrays with free(). On failure the caller
 * still owns what it passed. Loading adds all nodes before the first job; what is marked derived is
 * computed here and need not be stored. */
int cluster_add_node(struct cluster *cluster, struct node *node, struct error *err);
int cluster_add_job(struct cluster *cluster, struct job *job, struct error *err);
uint64_t cluster_next_sequence(struct cluster *cluster);
/* No number below `first` is given out again: jobs that had them are forgotten, their ids are not.
 */
void cluster_skip_sequences(struct cluster *cluster, uint64_t first);
/* Forget and free an ended job none of whose workers live. Never in the middle of a step. */
void cluster_remove_job(struct cluster *cluster, struct job *job);
struct rng *cluster_rng(struct cluster *cluster);
void node_free(struct node *node); /* NULL is fine */
void job_free(struct job *job);    /* releases the spec; NULL is fine */

/* Follow a change of job->state or job->spec (which of the active, begun and flexible ones it is
 * among) and of whether it waits. */
void cluster_job_moved(struct cluster *cluster, struct job *job, bool waiting);

/* When a job or node wants to be looked at again (INT64_MAX = never), and who is due. */
void cluster_wake_job(struct cluster *cluster, struct job *job, int64_t at_ms);
void cluster_wake_node(struct cluster *cluster, struct node *node, int64_t at_ms);
int64_t cluster_next_wake(const struct cluster *cluster);
struct job *cluster_due_job(struct cluster *cluster, int64_t now_ms);   /* takes it off; or NULL */
struct node *cluster_due_node(struct cluster *cluster, int64_t now_ms); /* takes it off; or NULL */

/* A new worker in `ASSIGNED` takes its slots; one that has exited gives them back (job_worker_gone
 * sets EXITED). Pointers to workers of this job are invalid after an addition. Aborts on no memory.
 */
struct worker *job_add_worker(struct cluster *cluster, struct job *job,
                              const struct worker *worker);
void job_worker_gone(struct cluster *cluster, struct job *job, struct worker *worker);
void job_forget_workers(struct job *job); /* those that exited and are members of no group */

/* Replace a group; `members` is copied. group_clear makes it "no such group" and gives back its
 * port. group_move empties `from`. */
void group_set(struct cluster *cluster, struct job *job, struct group *group,
               const struct group *value);
void group_clear(struct cluster *cluster, struct job *job, struct group *group);
void group_move(struct group *to, struct group *from);

/* The node moves to another address; ports held there move with it. */
void cluster_move_node(struct cluster *cluster, struct node *node, const char *address);

/* A port of this node's range that no active job holds on the same address; 0 = none is left. */
int cluster_free_port(struct cluster *cluster, const struct node *node);

/* Nothing is placed any more in this life of the coordinator. */
void cluster_halt(struct cluster *cluster);
bool cluster_halted(const struct cluster *cluster);

/* Whether a pass over the queue is still to be made: what is free or who waits has changed. */
void cluster_want_pass(struct cluster *cluster, bool wanted);
bool cluster_wants_pass(const struct cluster *cluster);
/* May the pass at work tell all in front of the queue what they wait for? Once in `every_ms`; where
 * it may not, a pass is wanted when the next one may. */
bool cluster_tells_front(struct cluster *cluster, int64_t every_ms);
/* When a pass is wanted for that: INT64_MAX = it is not. */
int64_t cluster_front_due_ms(const struct cluster *cluster);
/* One is made now. Returns the first job submitted since the one before; NULL: none was. */
struct job *cluster_begin_pass(struct cluster *cluster);
uint64_t cluster_passes(const struct cluster *cluster); /* made in this life of the coordinator */

/* What node `name` should run: one entry per worker it should run or still stop. */
struct assignment {
    const struct job *job;
    const struct worker *worker;
    const struct group *group; /* the group it should be in now: forming once open to it; never
                                * NULL, but of generation 0 when a stopping worker has none */
    uint64_t generation;       /* the one it should be in; never falls for a worker */
    int rank, world, local_rank, local_world, node_rank, node_count;
    bool stop, reform;
    bool complete;  /* with reform: all whom it leaves are there, so the step under way will end */
    bool published; /* all members joined `group`: membership is given out */
};
/* Calls fn for each, in order of (job sequence, uid). */
typedef void (*assignment_fn)(void *arg, const struct assignment *assignment);
void cluster_assignments(const struct cluster *cluster, const char *node_name, assignment_fn fn,
                         void *arg);

#endif
