/* A cluster on virtual time with agents that do what they are told, for stories: what happens is
 * said in a line each, what follows is compared with an expected trace. Invariants are checked
 * after every step. Each test uses its own world, one thread.
 */
#ifndef STORY_H
#define STORY_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/step.h"
#include "coordinator/core/why.h"
#include "coordinator/model/query.h"

enum {
    STORY_NODES_MAX = 8,
    STORY_WORKERS_MAX = 64,
    STORY_TRACE_MAX = 16384,
    STORY_KINDS_MAX = 24,
};

struct story_worker {
    char job[32];
    uint64_t uid, generation, joining, joined, step, total_steps, broken;
    const char *endpoint; /* NULL = by its node and place there */
    uint32_t lost_ranks[8];
    int lost_count, rank;
    bool unborn; /* its process is not known yet */
    bool exited, stopping, ignores_term, never_joins;
    bool stuck; /* SIGKILL does not end it, until this is taken back */
    int64_t term_at;
    struct exit_info exit;
    const char *start_error;     /* with exited; NULL = it ran */
    struct collective_wait wait; /* waited_ms 0 = it goes on */
};

struct story_node {
    char name[16];
    bool up, silent; /* silent: agent down, workers go on */
    bool breaks;     /* whatever starts there ends with code 1 */
    uint64_t incarnation, sequence;
    int slots;
    bool gpus;                /* they are GPUs */
    uint32_t held;            /* bits of those that its agent holds, with 1 GiB in use */
    uint32_t lost;            /* bits of those that cannot be read */
    int nvlinks;              /* of each of them */
    const char *const *links; /* rows of all of them; NULL: not read */
    struct label labels[2];
    int labels_count;
    struct story_worker workers[STORY_WORKERS_MAX];
    int workers_count;
};

struct story_records { /* of one kind */
    struct record newest;
    int count;
};

struct story {
    struct cluster *cluster;
    struct invariant_memory *memory;
    int64_t now_ms, wall_offset_ms;
    uint64_t next_request;
    struct story_node nodes[STORY_NODES_MAX];
    int nodes_count;
    bool pass_later;             /* events say that others come at once */
    bool unaware;                /* programs never say Hello */
    bool reports;                /* they report steps and metrics */
    bool slow;                   /* programs that start do not ask to join yet */
    bool finish;                 /* workers exit 0 as soon as they run */
    char trace[STORY_TRACE_MAX]; /* job_state and node_state lines since it was last expected */
    struct error error;          /* of the last answer; code 0 = ok */
    char answered[32];           /* job of the last answer */
    bool repeated;
    int pruned;
    char pruned_first[64];
    struct story_records records[STORY_KINDS_MAX];
    char text[512];              /* of story_text */
    int versions;                /* NODE_CHANGED actions seen */
    char stored[256];            /* by the last event: " j1 a ", jobs and nodes */
    struct ledger stored_ledger; /* of the job that was stored last */
};

struct story_spec {
    const char *name;
    int nodes_min, nodes_max, workers, slots, priority, restart_max;
    const char *elastic, *backoff, *constraint, *topology, *max_runtime, *signal;
    bool retry, stops; /* restart.on_no_progress: retry; restart.on_failure: stop */
    const char *tenant;
    int spares;
    const char *checkpoint_dir, *resume_from;
};

void story_begin(struct story *story);
void story_end(struct story *story);
void story_node_up(struct story *story, const char *name, int slots); /* registers, follows */
void story_node_label(struct story *story, const char *name, const char *key, const char *value);
struct story_node *story_node(struct story *story, const char *name);
/* Nodes a and b of a slot each; and on them job j1, running with a rank on each. */
void story_two_nodes(struct story *story);
void story_running_pair(struct story *story, const struct story_spec *spec);
extern const struct story_spec story_pair, story_rigid;       /* of 1..2 nodes, of 2 */
struct spec *story_spec_build(const struct story_spec *spec); /* released by the caller */
const char *story_submit(struct story *story, const struct story_spec *spec); /* id or "" */
const char *story_submit_key(struct story *story, const struct story_spec *spec, const char *key);
void story_tenant(struct story *story, const char *name, int weight, int guaranteed, int limit);
void story_scale(struct story *story, const char *id, int min, int max);
void story_cancel(struct story *story, const char *id);
void story_send(struct story *story, const struct event *event);
void story_report(struct story *story, const char *node); /* what its agent sees now */
void story_follow(struct story *story);           /* agents act and report until nothing changes */
void story_wait(struct story *story, int64_t ms); /* time passes, with reports each second */
void story_exit(struct story *story, const char *id, int rank, int code); /* a process ends */
void story_kill(struct story *story, const char *id, int rank, int signal);
void story_progress(struct story *story, const char *id, uint64_t step);
void story_register(struct story *story, const char *node, bool new_incarnation);
/* The coordinator begins another life, in which the monotonic clock begins at now_ms. */
void story_restart(struct story *story, int64_t now_ms);
void story_gone(struct story *story, const char *node);      /* its connection is gone */
void story_node_dies(struct story *story, const char *node); /* silent for good, workers gone */
void story_commit(struct story *story, const char *id, int rank, uint64_t generation,
                  uint64_t step);
void story_node_set(struct story *story, const char *node, enum node_command command);
struct story_worker *story_worker(struct story *story, const char *id, int rank,
                                  struct story_node **ret_node);
struct job *story_job(struct story *story, const char *id);

/* The trace since the last call is exactly this. */
void story_expect(struct story *story, const char *trace);
/* What was recorded of a kind ("worker_exited") since the story began. */
const struct story_records *story_records(struct story *story, const char *kind);
/* A reason's text as one who sees all reads it, until the next call. */
const char *story_text(struct story *story, const struct reason *reason);

#endif
